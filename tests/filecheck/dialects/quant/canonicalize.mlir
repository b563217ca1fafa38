// RUN: xdsl-opt %s -p canonicalize --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p cse --split-input-file | filecheck %s --check-prefix=CSE --match-full-lines
// RUN: xdsl-opt %s -p dce --split-input-file | filecheck %s --check-prefix=DCE --match-full-lines

!q = !quant.uniform<i8:f32, 2.0>

// A value that is quantized and dequantized is the value, although rounded.
func.func @dcast_of_qcast(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = quant.qcast %x : tensor<2xf32> to tensor<2x!q>
  %1 = quant.dcast %0 : tensor<2x!q> to tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @dcast_of_qcast(%x: tensor<2xf32>) -> tensor<2xf32> {
// CHECK-NEXT:      func.return %x : tensor<2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!q = !quant.uniform<i8:f32, 2.0>

// The cast that others use stays.
func.func @dcast_of_used_qcast(%x: f32) -> (!q, f32) {
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.dcast %0 : !q to f32
  return %0, %1 : !q, f32
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @dcast_of_used_qcast(%x: f32) -> (!quant.uniform<i8:f32, 2.000000e+00>, f32) {
// CHECK-NEXT:      %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      func.return %0, %x : !quant.uniform<i8:f32, 2.000000e+00>, f32
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

// Types that have no scale fold as well.
func.func @dcast_of_qcast_to_any(%x: f32, %y: tensor<*xf32>) -> (f32, tensor<*xf32>) {
  %0 = quant.qcast %x : f32 to !quant.any<i8:f32>
  %1 = quant.dcast %0 : !quant.any<i8:f32> to f32
  %2 = quant.qcast %y : tensor<*xf32> to tensor<*x!quant.calibrated<f32<-1.0:1.0>>>
  %3 = quant.dcast %2 : tensor<*x!quant.calibrated<f32<-1.0:1.0>>> to tensor<*xf32>
  return %1, %3 : f32, tensor<*xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @dcast_of_qcast_to_any(%x: f32, %y: tensor<*xf32>) -> (f32, tensor<*xf32>) {
// CHECK-NEXT:      func.return %x, %y : f32, tensor<*xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!q = !quant.uniform<i8:f32:0, {2.0, 3.0}>

func.func @qcast_of_dcast(%x: tensor<?x!q>) -> tensor<?x!q> {
  %0 = quant.dcast %x : tensor<?x!q> to tensor<?xf32>
  %1 = quant.qcast %0 : tensor<?xf32> to tensor<?x!q>
  return %1 : tensor<?x!q>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @qcast_of_dcast(%x: tensor<?x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>) -> tensor<?x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>> {
// CHECK-NEXT:      func.return %x : tensor<?x!quant.uniform<i8:f32:0, {2.000000e+00,3.000000e+00}>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!q = !quant.uniform<i8:f32:{0:1}, {2.0, 3.0}>

func.func @scast_of_scast(%x: tensor<2xi8>, %y: tensor<2x!q>) -> (tensor<2xi8>, tensor<2x!q>) {
  %0 = quant.scast %x : tensor<2xi8> to tensor<2x!q>
  %1 = quant.scast %0 : tensor<2x!q> to tensor<2xi8>
  %2 = quant.scast %y : tensor<2x!q> to tensor<2xi8>
  %3 = quant.scast %2 : tensor<2xi8> to tensor<2x!q>
  return %1, %3 : tensor<2xi8>, tensor<2x!q>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @scast_of_scast(%x: tensor<2xi8>, %y: tensor<2x!quant.uniform<i8:f32:{0:1}, {2.000000e+00, 3.000000e+00}>>) -> (tensor<2xi8>, tensor<2x!quant.uniform<i8:f32:{0:1}, {2.000000e+00, 3.000000e+00}>>) {
// CHECK-NEXT:      func.return %x, %y : tensor<2xi8>, tensor<2x!quant.uniform<i8:f32:{0:1}, {2.000000e+00, 3.000000e+00}>>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!q = !quant.uniform<i8:f32, 2.0>

func.func @chain(%x: f32) -> (f32, !q) {
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.dcast %0 : !q to f32
  %2 = quant.qcast %1 : f32 to !q
  %3 = quant.dcast %2 : !q to f32
  return %3, %2 : f32, !q
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @chain(%x: f32) -> (f32, !quant.uniform<i8:f32, 2.000000e+00>) {
// CHECK-NEXT:      %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      func.return %x, %0 : f32, !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!p = !quant.uniform<i8:f32, 2.0>
!q = !quant.uniform<i8:f32, 2.0:1>

// Requantization is no identity.
func.func @qcast_of_dcast_of_another_type(%x: !p) -> !q {
  %0 = quant.dcast %x : !p to f32
  %1 = quant.qcast %0 : f32 to !q
  return %1 : !q
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @qcast_of_dcast_of_another_type(%x: !quant.uniform<i8:f32, 2.000000e+00>) -> !quant.uniform<i8:f32, 2.000000e+00:1> {
// CHECK-NEXT:      %0 = quant.dcast %x : !quant.uniform<i8:f32, 2.000000e+00> to f32
// CHECK-NEXT:      %1 = quant.qcast %0 : f32 to !quant.uniform<i8:f32, 2.000000e+00:1>
// CHECK-NEXT:      func.return %1 : !quant.uniform<i8:f32, 2.000000e+00:1>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!p = !quant.uniform<i8:f32, 2.0>
!q = !quant.uniform<i8:f32, 2.0:1>

func.func @scast_of_scast_of_another_type(%x: !p) -> !q {
  %0 = quant.scast %x : !p to i8
  %1 = quant.scast %0 : i8 to !q
  return %1 : !q
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @scast_of_scast_of_another_type(%x: !quant.uniform<i8:f32, 2.000000e+00>) -> !quant.uniform<i8:f32, 2.000000e+00:1> {
// CHECK-NEXT:      %0 = quant.scast %x : !quant.uniform<i8:f32, 2.000000e+00> to i8
// CHECK-NEXT:      %1 = quant.scast %0 : i8 to !quant.uniform<i8:f32, 2.000000e+00:1>
// CHECK-NEXT:      func.return %1 : !quant.uniform<i8:f32, 2.000000e+00:1>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!q = !quant.uniform<i8:f32, 2.0>

// Tensors that differ in their encodings are of different types.
func.func @other_encoding(%x: tensor<2xf32, "a">) -> tensor<2xf32> {
  %0 = quant.qcast %x : tensor<2xf32, "a"> to tensor<2x!q, "a">
  %1 = quant.dcast %0 : tensor<2x!q, "a"> to tensor<2xf32>
  return %1 : tensor<2xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @other_encoding(%x: tensor<2xf32, "a">) -> tensor<2xf32> {
// CHECK-NEXT:      %0 = quant.qcast %x : tensor<2xf32, "a"> to tensor<2x!quant.uniform<i8:f32, 2.000000e+00>, "a">
// CHECK-NEXT:      %1 = quant.dcast %0 : tensor<2x!quant.uniform<i8:f32, 2.000000e+00>, "a"> to tensor<2xf32>
// CHECK-NEXT:      func.return %1 : tensor<2xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!q = !quant.uniform<i8:f32, 2.0>

// A quantization and a view do not fold, whichever comes first.
func.func @mixed(%x: f32, %i: i8) -> (i8, f32) {
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.scast %0 : !q to i8
  %2 = quant.scast %i : i8 to !q
  %3 = quant.dcast %2 : !q to f32
  return %1, %3 : i8, f32
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @mixed(%x: f32, %i: i8) -> (i8, f32) {
// CHECK-NEXT:      %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %1 = quant.scast %0 : !quant.uniform<i8:f32, 2.000000e+00> to i8
// CHECK-NEXT:      %2 = quant.scast %i : i8 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %3 = quant.dcast %2 : !quant.uniform<i8:f32, 2.000000e+00> to f32
// CHECK-NEXT:      func.return %1, %3 : i8, f32
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// -----

!q = !quant.uniform<i8:f32, 2.0>

func.func @common(%x: f32, %y: !q, %i: i8) -> (!q, !q, f32, f32, !q, !q) {
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.qcast %x : f32 to !q
  %2 = quant.dcast %y : !q to f32
  %3 = quant.dcast %y : !q to f32
  %4 = quant.scast %i : i8 to !q
  %5 = quant.scast %i : i8 to !q
  return %0, %1, %2, %3, %4, %5 : !q, !q, f32, f32, !q, !q
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @common(%x: f32, %y: !quant.uniform<i8:f32, 2.000000e+00>, %i: i8) -> (!quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00>, f32, f32, !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00>) {
// CHECK-NEXT:      %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %1 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %2 = quant.dcast %y : !quant.uniform<i8:f32, 2.000000e+00> to f32
// CHECK-NEXT:      %3 = quant.dcast %y : !quant.uniform<i8:f32, 2.000000e+00> to f32
// CHECK-NEXT:      %4 = quant.scast %i : i8 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %5 = quant.scast %i : i8 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      func.return %0, %1, %2, %3, %4, %5 : !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00>, f32, f32, !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
// CSE:         func.func @common(%x: f32, %y: !quant.uniform<i8:f32, 2.000000e+00>, %i: i8) -> (!quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00>, f32, f32, !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00>) {
// CSE-NEXT:      %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.000000e+00>
// CSE-NEXT:      %1 = quant.dcast %y : !quant.uniform<i8:f32, 2.000000e+00> to f32
// CSE-NEXT:      %2 = quant.scast %i : i8 to !quant.uniform<i8:f32, 2.000000e+00>
// CSE-NEXT:      func.return %0, %0, %1, %1, %2, %2 : !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00>, f32, f32, !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00>
// CSE-NEXT:    }
// CSE-NEXT:  }

// -----

!p = !quant.uniform<i8:f32, 2.0>
!q = !quant.uniform<i8:f32, 2.0:1>

// Types that differ in one parameter make different ops.
func.func @not_common(%x: f32, %i: i8) -> (!p, !q, !p, !q) {
  %0 = quant.qcast %x : f32 to !p
  %1 = quant.qcast %x : f32 to !q
  %2 = quant.scast %i : i8 to !p
  %3 = quant.scast %i : i8 to !q
  return %0, %1, %2, %3 : !p, !q, !p, !q
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @not_common(%x: f32, %i: i8) -> (!quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00:1>, !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00:1>) {
// CHECK-NEXT:      %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %1 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.000000e+00:1>
// CHECK-NEXT:      %2 = quant.scast %i : i8 to !quant.uniform<i8:f32, 2.000000e+00>
// CHECK-NEXT:      %3 = quant.scast %i : i8 to !quant.uniform<i8:f32, 2.000000e+00:1>
// CHECK-NEXT:      func.return %0, %1, %2, %3 : !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00:1>, !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00:1>
// CHECK-NEXT:    }
// CHECK-NEXT:  }
// CSE:         func.func @not_common(%x: f32, %i: i8) -> (!quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00:1>, !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00:1>) {
// CSE-NEXT:      %0 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.000000e+00>
// CSE-NEXT:      %1 = quant.qcast %x : f32 to !quant.uniform<i8:f32, 2.000000e+00:1>
// CSE-NEXT:      %2 = quant.scast %i : i8 to !quant.uniform<i8:f32, 2.000000e+00>
// CSE-NEXT:      %3 = quant.scast %i : i8 to !quant.uniform<i8:f32, 2.000000e+00:1>
// CSE-NEXT:      func.return %0, %1, %2, %3 : !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00:1>, !quant.uniform<i8:f32, 2.000000e+00>, !quant.uniform<i8:f32, 2.000000e+00:1>
// CSE-NEXT:    }
// CSE-NEXT:  }

// -----

!q = !quant.uniform<i8:f32, 2.0>

func.func @unused(%x: f32, %y: !q, %i: i8) {
  %0 = quant.qcast %x : f32 to !q
  %1 = quant.dcast %y : !q to f32
  %2 = quant.scast %i : i8 to !q
  %3 = quant.dcast %2 : !q to f32
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @unused(%x: f32, %y: !quant.uniform<i8:f32, 2.000000e+00>, %i: i8) {
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }
// DCE:         func.func @unused(%x: f32, %y: !quant.uniform<i8:f32, 2.000000e+00>, %i: i8) {
// DCE-NEXT:      func.return
// DCE-NEXT:    }
// DCE-NEXT:  }
