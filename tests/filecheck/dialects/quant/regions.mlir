// RUN: XDSL_ROUNDTRIP --match-full-lines
// RUN: XDSL_GENERIC_ROUNDTRIP --match-full-lines

// As MLIR 14 prints them.

func.func @generic(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "quant.region"(%x, %y) ({
  ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
    %c = arith.addf %a, %b : tensor<4xf32>
    "quant.return"(%c) : (tensor<4xf32>) -> ()
  }) {input_specs = [!quant.any<i8:f32>, f32], logical_kernel = "add", output_specs = [!quant.uniform<i8:f32, 5.000000e-01:3>]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @generic(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:      %0 = quant.region "add" (%a = %x : tensor<4xf32> as !quant.any<i8:f32>, %b = %y : tensor<4xf32>) -> (tensor<4xf32> as !quant.uniform<i8:f32, 5.000000e-01:3>) {
// CHECK-NEXT:        %c = arith.addf %a, %b : tensor<4xf32>
// CHECK-NEXT:        quant.return %c : tensor<4xf32>
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return %0 : tensor<4xf32>
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// CHECK-GENERIC:       "builtin.module"() ({
// CHECK-GENERIC-NEXT:    "func.func"() <{sym_name = "generic", function_type = (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>}> ({
// CHECK-GENERIC-NEXT:    ^bb0(%x: tensor<4xf32>, %y: tensor<4xf32>):
// CHECK-GENERIC-NEXT:      %0 = "quant.region"(%x, %y) ({
// CHECK-GENERIC-NEXT:      ^bb0(%a: tensor<4xf32>, %b: tensor<4xf32>):
// CHECK-GENERIC-NEXT:        %c = "arith.addf"(%a, %b) <{fastmath = #arith.fastmath<none>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-GENERIC-NEXT:        "quant.return"(%c) : (tensor<4xf32>) -> ()
// CHECK-GENERIC-NEXT:      }) {input_specs = [!quant.any<i8:f32>, f32], logical_kernel = "add", output_specs = [!quant.uniform<i8:f32, 5.000000e-01:3>]} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-GENERIC-NEXT:      "func.return"(%0) : (tensor<4xf32>) -> ()
// CHECK-GENERIC-NEXT:    }) : () -> ()
// CHECK-GENERIC-NEXT:  }) : () -> ()

// -----

// No ports, several results, scalars, all specifications, attributes, and names that are
// used inside and outside.

func.func @forms(%x: f32, %y: tensor<?x2xf32>, %z: tensor<*xf16>, %i: tensor<2xi32>) {
  quant.region "nothing" () {
  }
  %0:2 = quant.region "two" (%x = %x : f32 as !quant.calibrated<f32<-1.0:1.0>>) -> (f32 as f32, f32 as !quant.any<i8:f32>) {
    quant.return %x, %x : f32, f32
  }
  quant.region "ranks" (
    %a = %y : tensor<?x2xf32> as !quant.uniform<i8:f32:1, {2.0,3.0:5}>,
    %b = %z : tensor<*xf16> as !quant.uniform<u8:f16, 0.5>,
    %c = %i : tensor<2xi32>
  ) attributes {note = 1 : i32} {
    %y = arith.addf %a, %a : tensor<?x2xf32>
    quant.return
  }
  quant.region "fixed\22point" (%a = %x : f32 as !quant.fixed_point<i8:f32, 1073741824p-31>) {
    quant.return
  }
  return
}

// CHECK:       builtin.module {
// CHECK-NEXT:    func.func @forms(%x: f32, %y: tensor<?x2xf32>, %z: tensor<*xf16>, %i: tensor<2xi32>) {
// CHECK-NEXT:      quant.region "nothing" () {
// CHECK-NEXT:        quant.return
// CHECK-NEXT:      }
// CHECK-NEXT:      %0, %1 = quant.region "two" (%x_1 = %x : f32 as !quant.calibrated<f32<-1.000000e+00:1.000000e+00>>) -> (f32, f32 as !quant.any<i8:f32>) {
// CHECK-NEXT:        quant.return %x_1, %x_1 : f32, f32
// CHECK-NEXT:      }
// CHECK-NEXT:      quant.region "ranks" (%a = %y : tensor<?x2xf32> as !quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00:5}>, %b = %z : tensor<*xf16> as !quant.uniform<u8:f16, 5.000000e-01>, %c = %i : tensor<2xi32>) attributes {note = 1 : i32} {
// CHECK-NEXT:        %y_1 = arith.addf %a, %a : tensor<?x2xf32>
// CHECK-NEXT:        quant.return
// CHECK-NEXT:      }
// CHECK-NEXT:      quant.region "fixed\22point" (%a = %x : f32 as !quant.fixed_point<i8:f32, 1073741824p-31>) {
// CHECK-NEXT:        quant.return
// CHECK-NEXT:      }
// CHECK-NEXT:      func.return
// CHECK-NEXT:    }
// CHECK-NEXT:  }

// CHECK-GENERIC: %0, %1 = "quant.region"(%x) ({
// CHECK-GENERIC: }) {input_specs = [!quant.calibrated<f32<-1.000000e+00:1.000000e+00>>], logical_kernel = "two", output_specs = [f32, !quant.any<i8:f32>]} : (f32) -> (f32, f32)
// CHECK-GENERIC: }) {input_specs = [!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00:5}>, !quant.uniform<u8:f16, 5.000000e-01>, i32], logical_kernel = "ranks", output_specs = [], note = 1 : i32} : (tensor<?x2xf32>, tensor<*xf16>, tensor<2xi32>) -> ()
