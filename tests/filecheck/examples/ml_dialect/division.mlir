// Two operations on the same operands, step by step. One per-layer type would do for
// integers, but neither a quotient nor a remainder is computed with them.

// RUN: xdsl-opt %s -p convert-ml-to-arith | filecheck %s --check-prefix=CONVERT
// RUN: xdsl-opt %s -p convert-ml-to-arith,canonicalize | filecheck %s --check-prefix=CONVERT
// RUN: xdsl-opt %s -p convert-ml-to-arith,canonicalize,cse | filecheck %s --check-prefix=CSE
// RUN: xdsl-opt %s -p convert-ml-to-arith,canonicalize,cse,lower-quant-ops | filecheck %s --check-prefix=LOWER
// RUN: xdsl-opt %s -p convert-ml-to-arith,canonicalize,cse,lower-quant-ops | filecheck %s --check-prefix=NO-CASTS
// RUN: xdsl-opt %s -p convert-ml-to-arith,canonicalize,cse,lower-quant-ops,strip-func-quant-types | filecheck %s --check-prefix=STRIP
// RUN: xdsl-opt %s -p convert-ml-to-arith,cse,lower-quant-ops,strip-func-quant-types,canonicalize,cse | filecheck %s --check-prefix=FINAL
// RUN: xdsl-opt %s -p convert-ml-to-arith,cse,lower-quant-ops,strip-func-quant-types,canonicalize,cse | mlir-opt | filecheck %s --check-prefix=NOTHING-LEFT

!qalias = !quant.uniform<i8:f32, 2.0>

func.func @division(%arg0: tensor<3x!qalias>, %arg1: tensor<3x!qalias>) -> (tensor<3x!qalias>, tensor<3x!qalias>) {
  %quotient = "ml.div"(%arg0, %arg1) : (tensor<3x!qalias>, tensor<3x!qalias>) -> tensor<3x!qalias>
  %remainder = "ml.mod"(%arg0, %arg1) : (tensor<3x!qalias>, tensor<3x!qalias>) -> tensor<3x!qalias>
  return %quotient, %remainder : tensor<3x!qalias>, tensor<3x!qalias>
}

// Both operands are dequantized twice.

// CONVERT:       func.func @division(%arg0: [[Q:tensor<3x!quant.uniform<i8:f32, 2.000000e\+00>>]], %arg1: [[Q]]) -> ([[Q]], [[Q]]) {
// CONVERT-NEXT:    %arg0_f32 = quant.dcast %arg0 : [[Q]] to tensor<3xf32>
// CONVERT-NEXT:    %arg1_f32 = quant.dcast %arg1 : [[Q]] to tensor<3xf32>
// CONVERT-NEXT:    %quotient_f32 = arith.divf %arg0_f32, %arg1_f32 : tensor<3xf32>
// CONVERT-NEXT:    %quotient = quant.qcast %quotient_f32 : tensor<3xf32> to [[Q]]
// CONVERT-NEXT:    %arg0_f32_1 = quant.dcast %arg0 : [[Q]] to tensor<3xf32>
// CONVERT-NEXT:    %arg1_f32_1 = quant.dcast %arg1 : [[Q]] to tensor<3xf32>
// CONVERT-NEXT:    %remainder_f32 = arith.remf %arg0_f32_1, %arg1_f32_1 : tensor<3xf32>
// CONVERT-NEXT:    %remainder = quant.qcast %remainder_f32 : tensor<3xf32> to [[Q]]
// CONVERT-NEXT:    func.return %quotient, %remainder : [[Q]], [[Q]]
// CONVERT-NEXT:  }

// Both operands are dequantized once.

// CSE:       func.func @division(%arg0: [[Q:tensor<3x!quant.uniform<i8:f32, 2.000000e\+00>>]], %arg1: [[Q]]) -> ([[Q]], [[Q]]) {
// CSE-NEXT:    %arg0_f32 = quant.dcast %arg0 : [[Q]] to tensor<3xf32>
// CSE-NEXT:    %arg1_f32 = quant.dcast %arg1 : [[Q]] to tensor<3xf32>
// CSE-NEXT:    %quotient_f32 = arith.divf %arg0_f32, %arg1_f32 : tensor<3xf32>
// CSE-NEXT:    %quotient = quant.qcast %quotient_f32 : tensor<3xf32> to [[Q]]
// CSE-NEXT:    %remainder_f32 = arith.remf %arg0_f32, %arg1_f32 : tensor<3xf32>
// CSE-NEXT:    %remainder = quant.qcast %remainder_f32 : tensor<3xf32> to [[Q]]
// CSE-NEXT:    func.return %quotient, %remainder : [[Q]], [[Q]]
// CSE-NEXT:  }

// Quantized types are left in the signature and in casts from and to storage.

// LOWER:       func.func @division(%arg0: [[Q:tensor<3x!quant.uniform<i8:f32, 2.000000e\+00>>]], %arg1: [[Q]]) -> ([[Q]], [[Q]]) {
// LOWER:         [[STORED0:%.*]] = quant.scast %arg0 : [[Q]] to tensor<3xi8>
// LOWER:         arith.sitofp [[STORED0]] : tensor<3xi8> to tensor<3xf32>
// LOWER-NEXT:    %arg0_f32 = arith.mulf
// LOWER:         [[STORED1:%.*]] = quant.scast %arg1 : [[Q]] to tensor<3xi8>
// LOWER:         arith.sitofp [[STORED1]] : tensor<3xi8> to tensor<3xf32>
// LOWER-NEXT:    %arg1_f32 = arith.mulf
// LOWER:         %quotient_f32 = arith.divf %arg0_f32, %arg1_f32 : tensor<3xf32>
// LOWER:         [[QUOTIENT:%.*]] = arith.fptosi {{.*}} : tensor<3xf32> to tensor<3xi8>
// LOWER-NEXT:    %quotient = quant.scast [[QUOTIENT]] : tensor<3xi8> to [[Q]]
// LOWER-NEXT:    %remainder_f32 = arith.remf %arg0_f32, %arg1_f32 : tensor<3xf32>
// LOWER:         [[REMAINDER:%.*]] = arith.fptosi {{.*}} : tensor<3xf32> to tensor<3xi8>
// LOWER-NEXT:    %remainder = quant.scast [[REMAINDER]] : tensor<3xi8> to [[Q]]
// LOWER-NEXT:    func.return %quotient, %remainder : [[Q]], [[Q]]

// NO-CASTS:     builtin.module {
// NO-CASTS-NOT: quant.{{[qd]}}cast

// The signature is free of them.

// STRIP:       func.func @division(%{{.*}}: tensor<3xi8>, %{{.*}}: tensor<3xi8>) -> (tensor<3xi8>, tensor<3xi8>) {
// STRIP:         quant.scast %{{.*}} : tensor<3xi8> to [[Q:tensor<3x!quant.uniform<i8:f32, 2.000000e\+00>>]]
// STRIP:         quant.scast %{{.*}} : [[Q]] to tensor<3xi8>
// STRIP:         func.return %{{.*}}, %{{.*}} : tensor<3xi8>, tensor<3xi8>

// The casts have cancelled out.

// FINAL:       func.func @division(%[[ARG0:.*]]: tensor<3xi8>, %[[ARG1:.*]]: tensor<3xi8>) -> (tensor<3xi8>, tensor<3xi8>) {
// FINAL-NEXT:    [[SCALE:%.*]] = arith.constant 2.000000e+00 : f32
// FINAL-NEXT:    [[SCALES:%.*]] = tensor.splat [[SCALE]] : tensor<3xf32>
// FINAL-NEXT:    [[CONVERTED0:%.*]] = arith.sitofp %[[ARG0]] : tensor<3xi8> to tensor<3xf32>
// FINAL-NEXT:    [[FLOAT0:%.*]] = arith.mulf [[CONVERTED0]], [[SCALES]] : tensor<3xf32>
// FINAL-NEXT:    [[CONVERTED1:%.*]] = arith.sitofp %[[ARG1]] : tensor<3xi8> to tensor<3xf32>
// FINAL-NEXT:    [[FLOAT1:%.*]] = arith.mulf [[CONVERTED1]], [[SCALES]] : tensor<3xf32>
// FINAL-NEXT:    [[QUOTIENT:%.*]] = arith.divf [[FLOAT0]], [[FLOAT1]] : tensor<3xf32>
// FINAL-NEXT:    [[SCALED_QUOTIENT:%.*]] = arith.divf [[QUOTIENT]], [[SCALES]] : tensor<3xf32>
// FINAL-NEXT:    [[STORED_QUOTIENT:%.*]] = arith.fptosi [[SCALED_QUOTIENT]] : tensor<3xf32> to tensor<3xi8>
// FINAL-NEXT:    [[REMAINDER:%.*]] = arith.remf [[FLOAT0]], [[FLOAT1]] : tensor<3xf32>
// FINAL-NEXT:    [[SCALED_REMAINDER:%.*]] = arith.divf [[REMAINDER]], [[SCALES]] : tensor<3xf32>
// FINAL-NEXT:    [[STORED_REMAINDER:%.*]] = arith.fptosi [[SCALED_REMAINDER]] : tensor<3xf32> to tensor<3xi8>
// FINAL-NEXT:    func.return [[STORED_QUOTIENT]], [[STORED_REMAINDER]] : tensor<3xi8>, tensor<3xi8>
// FINAL-NEXT:  }

// NOTHING-LEFT:     module {
// NOTHING-LEFT-NOT: quant
// NOTHING-LEFT-NOT: ml.
