// RUN: xdsl-opt %s -t mlir-aliased --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -t 'mlir-aliased{print-generic-format=true}' --split-input-file | filecheck %s --check-prefix=GENERIC

// xDSL and MLIR read the module that is meant, in every form of the text.

// RUN: xdsl-opt %s --split-input-file > %t.xdsl
// RUN: xdsl-opt %s --split-input-file | mlir-opt --split-input-file > %t.mlir

// RUN: xdsl-opt %s -t mlir-aliased --split-input-file > %t
// RUN: xdsl-opt --split-input-file < %t | diff %t.xdsl -
// RUN: mlir-opt --split-input-file < %t | diff %t.mlir -
// RUN: mlir-opt --split-input-file < %t | xdsl-opt -t mlir-aliased --split-input-file | filecheck %s --match-full-lines

// RUN: xdsl-opt %s -t 'mlir-aliased{print-generic-format=true}' --split-input-file > %t
// RUN: xdsl-opt --split-input-file < %t | diff %t.xdsl -
// RUN: mlir-opt --split-input-file < %t | diff %t.mlir -

// RUN: xdsl-opt %s -t 'mlir-aliased{print-debuginfo=true}' --split-input-file > %t
// RUN: xdsl-opt --split-input-file < %t | diff %t.xdsl -
// RUN: mlir-opt --split-input-file < %t | diff %t.mlir -

// The aliases of the input are not those of the output: types are numbered in the order of
// their first uses.

!any = !quant.any<i8<-8:7>:f32>
!calibrated = !quant.calibrated<f32<-0.998:1.2321>>
!layer = !quant.uniform<u16<0:1023>:f32, 1.23:512>
!q0 = !quant.uniform<i8:f32:1, {0.1, 931.097:5, 1234567.0}>
!channel = !quant.uniform<i8:f16:{0:1, 1:2}, {{0.1:1, 2.0}, {3.0, 4.0:5}}>

func.func @f(%arg0: f32, %arg1: tensor<?x3xf32>, %arg2: tensor<2x4xf16>, %arg3: tensor<*xf32>) -> (tensor<?x3x!q0>, !layer) {
  %0 = quant.qcast %arg0 : f32 to !layer
  %1 = quant.qcast %arg1 : tensor<?x3xf32> to tensor<?x3x!q0>
  %2 = quant.qcast %arg2 : tensor<2x4xf16> to tensor<2x4x!channel>
  %3 = quant.qcast %arg3 : tensor<*xf32> to tensor<*x!q0>
  %4 = quant.qcast %arg0 : f32 to !calibrated
  cf.br ^bb1(%1 : tensor<?x3x!q0>)
^bb1(%5: tensor<?x3x!q0>):
  return %5, %0 : tensor<?x3x!q0>, !layer
}

func.func private @types((!any) -> tensor<4x!layer, "encoding">, tuple<!layer, !any>, f32 {test.a = !any}) attributes {test.b = [tensor<4x!layer>, {c = !layer}]}

// CHECK:       !q0 = !quant.uniform<i8:f32:1, {1.000000e-01,931.09699999999998:5,0x4132D68700000000}>
// CHECK-NEXT:  !q1 = !quant.uniform<u16<0:1023>:f32, 1.230000e+00:512>
// CHECK-NEXT:  !q2 = !quant.uniform<i8:f16:{0:1, 1:2}, {{{{}}9.997550e-02:1, 2.000000e+00}, {3.000000e+00, 4.000000e+00:5}}>
// CHECK-NEXT:  !q3 = !quant.calibrated<f32<-0.998:1.232100e+00>>
// CHECK-NEXT:  !q4 = !quant.any<i8<-8:7>:f32>
// CHECK-NEXT:  builtin.module {
// CHECK-NEXT:    func.func @f(%arg0: f32, %arg1: tensor<?x3xf32>, %arg2: tensor<2x4xf16>, %arg3: tensor<*xf32>) -> (tensor<?x3x!q0>, !q1) {
// CHECK-NEXT:      %0 = quant.qcast %arg0 : f32 to !q1
// CHECK-NEXT:      %1 = quant.qcast %arg1 : tensor<?x3xf32> to tensor<?x3x!q0>
// CHECK-NEXT:      %2 = quant.qcast %arg2 : tensor<2x4xf16> to tensor<2x4x!q2>
// CHECK-NEXT:      %3 = quant.qcast %arg3 : tensor<*xf32> to tensor<*x!q0>
// CHECK-NEXT:      %4 = quant.qcast %arg0 : f32 to !q3
// CHECK-NEXT:      cf.br ^bb1(%1 : tensor<?x3x!q0>)
// CHECK-NEXT:    ^bb1(%5: tensor<?x3x!q0>):
// CHECK-NEXT:      func.return %5, %0 : tensor<?x3x!q0>, !q1
// CHECK-NEXT:    }
// CHECK-NEXT:    func.func private @types((!q4) -> tensor<4x!q1, "encoding">, tuple<!q1, !q4>, f32 {test.a = !q4}) attributes {test.b = [tensor<4x!q1>, {c = !q1}]}
// CHECK-NEXT:  }

// GENERIC:       !q0 = !quant.uniform<i8:f32:1, {1.000000e-01,931.09699999999998:5,0x4132D68700000000}>
// GENERIC-NEXT:  !q1 = !quant.uniform<u16<0:1023>:f32, 1.230000e+00:512>
// GENERIC:       "builtin.module"() ({
// GENERIC-NEXT:    "func.func"() <{sym_name = "f", function_type = (f32, tensor<?x3xf32>, tensor<2x4xf16>, tensor<*xf32>) -> (tensor<?x3x!q0>, !q1)}> ({
// GENERIC-NEXT:    ^bb0(%arg0: f32, %arg1: tensor<?x3xf32>, %arg2: tensor<2x4xf16>, %arg3: tensor<*xf32>):
// GENERIC-NEXT:      %0 = "quant.qcast"(%arg0) : (f32) -> !q1

// -----

// Aliases are those of one module, and there are none without quantized types.

func.func private @other(!quant.any<u4<1:9>>)

// CHECK:       !q0 = !quant.any<u4<1:9>>
// CHECK-NEXT:  builtin.module {
// CHECK-NEXT:    func.func private @other(!q0) -> ()

// -----

func.func private @plain(i8)

// CHECK-NOT:   {{!q.*}}
// CHECK:       builtin.module {
