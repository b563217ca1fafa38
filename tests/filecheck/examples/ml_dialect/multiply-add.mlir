// From `ml` with a type that has no lowering of its own to integers, step by step.

// RUN: xdsl-opt %s -p convert-ml-to-arith | filecheck %s --check-prefix=CONVERT
// RUN: xdsl-opt %s -p convert-ml-to-arith,canonicalize | filecheck %s --check-prefix=CANONICALIZE
// RUN: xdsl-opt %s -p convert-ml-to-arith,canonicalize,cse | filecheck %s --check-prefix=CANONICALIZE
// RUN: xdsl-opt %s -p convert-ml-to-arith,canonicalize,cse,lower-quant-ops | filecheck %s --check-prefix=LOWER
// RUN: xdsl-opt %s -p convert-ml-to-arith,canonicalize,cse,lower-quant-ops | filecheck %s --check-prefix=NO-CASTS
// RUN: xdsl-opt %s -p convert-ml-to-arith,canonicalize,cse,lower-quant-ops,strip-func-quant-types | filecheck %s --check-prefix=STRIP
// RUN: xdsl-opt %s -p convert-ml-to-arith,cse,lower-quant-ops,strip-func-quant-types,canonicalize,cse | filecheck %s --check-prefix=FINAL
// RUN: xdsl-opt %s -p convert-ml-to-arith,cse,lower-quant-ops,strip-func-quant-types,canonicalize,cse | mlir-opt | filecheck %s --check-prefix=NOTHING-LEFT

!qalias = !quant.uniform<i8:f32:0, {2.0, 3.0, 4.0}>

func.func @multiply_add(%arg0: tensor<3x!qalias>, %arg1: tensor<3x!qalias>, %arg2: tensor<3x!qalias>) -> tensor<3x!qalias> {
  %product = "ml.mul"(%arg0, %arg1) : (tensor<3x!qalias>, tensor<3x!qalias>) -> tensor<3x!qalias>
  %sum = "ml.add"(%product, %arg2) : (tensor<3x!qalias>, tensor<3x!qalias>) -> tensor<3x!qalias>
  return %sum : tensor<3x!qalias>
}

// Operands are dequantized and results are quantized.

// CONVERT:       func.func @multiply_add(%arg0: [[Q:tensor<3x!quant.uniform<i8:f32:0, \{2.000000e\+00,3.000000e\+00,4.000000e\+00\}>>]], %arg1: [[Q]], %arg2: [[Q]]) -> [[Q]] {
// CONVERT-NEXT:    %arg0_f32 = quant.dcast %arg0 : [[Q]] to tensor<3xf32>
// CONVERT-NEXT:    %arg1_f32 = quant.dcast %arg1 : [[Q]] to tensor<3xf32>
// CONVERT-NEXT:    %product_f32 = arith.mulf %arg0_f32, %arg1_f32 : tensor<3xf32>
// CONVERT-NEXT:    %product = quant.qcast %product_f32 : tensor<3xf32> to [[Q]]
// CONVERT-NEXT:    %product_f32_1 = quant.dcast %product : [[Q]] to tensor<3xf32>
// CONVERT-NEXT:    %arg2_f32 = quant.dcast %arg2 : [[Q]] to tensor<3xf32>
// CONVERT-NEXT:    %sum_f32 = arith.addf %product_f32_1, %arg2_f32 : tensor<3xf32>
// CONVERT-NEXT:    %sum = quant.qcast %sum_f32 : tensor<3xf32> to [[Q]]
// CONVERT-NEXT:    func.return %sum : [[Q]]
// CONVERT-NEXT:  }

// The product is not quantized and dequantized any more.

// CANONICALIZE:       func.func @multiply_add(%arg0: [[Q:tensor<3x!quant.uniform<i8:f32:0, \{2.000000e\+00,3.000000e\+00,4.000000e\+00\}>>]], %arg1: [[Q]], %arg2: [[Q]]) -> [[Q]] {
// CANONICALIZE-NEXT:    %arg0_f32 = quant.dcast %arg0 : [[Q]] to tensor<3xf32>
// CANONICALIZE-NEXT:    %arg1_f32 = quant.dcast %arg1 : [[Q]] to tensor<3xf32>
// CANONICALIZE-NEXT:    %product_f32 = arith.mulf %arg0_f32, %arg1_f32 : tensor<3xf32>
// CANONICALIZE-NEXT:    %arg2_f32 = quant.dcast %arg2 : [[Q]] to tensor<3xf32>
// CANONICALIZE-NEXT:    %sum_f32 = arith.addf %product_f32, %arg2_f32 : tensor<3xf32>
// CANONICALIZE-NEXT:    %sum = quant.qcast %sum_f32 : tensor<3xf32> to [[Q]]
// CANONICALIZE-NEXT:    func.return %sum : [[Q]]
// CANONICALIZE-NEXT:  }

// Quantized types are left in the signature and in casts from and to storage.

// LOWER:       func.func @multiply_add(%arg0: [[Q:tensor<3x!quant.uniform<i8:f32:0, \{2.000000e\+00,3.000000e\+00,4.000000e\+00\}>>]], %arg1: [[Q]], %arg2: [[Q]]) -> [[Q]] {
// LOWER:         [[STORED0:%.*]] = quant.scast %arg0 : [[Q]] to tensor<3xi8>
// LOWER:         %arg0_f32 = linalg.generic {{.*}} ins([[STORED0]], {{.*}} : tensor<3xi8>, tensor<3xf32>, tensor<3xi8>)
// LOWER:         [[STORED1:%.*]] = quant.scast %arg1 : [[Q]] to tensor<3xi8>
// LOWER:         %arg1_f32 = linalg.generic {{.*}} ins([[STORED1]], {{.*}} : tensor<3xi8>, tensor<3xf32>, tensor<3xi8>)
// LOWER:         %product_f32 = arith.mulf %arg0_f32, %arg1_f32 : tensor<3xf32>
// LOWER:         [[STORED2:%.*]] = quant.scast %arg2 : [[Q]] to tensor<3xi8>
// LOWER:         %arg2_f32 = linalg.generic {{.*}} ins([[STORED2]], {{.*}} : tensor<3xi8>, tensor<3xf32>, tensor<3xi8>)
// LOWER:         %sum_f32 = arith.addf %product_f32, %arg2_f32 : tensor<3xf32>
// LOWER:         [[STORED:%.*]] = linalg.generic {{.*}} ins(%sum_f32, {{.*}} : tensor<3xf32>, tensor<3xf32>, tensor<3xi8>)
// LOWER:         %sum = quant.scast [[STORED]] : tensor<3xi8> to [[Q]]
// LOWER-NEXT:    func.return %sum : [[Q]]

// NO-CASTS:     builtin.module {
// NO-CASTS-NOT: quant.{{[qd]}}cast

// The signature is free of them.

// STRIP:       func.func @multiply_add(%{{.*}}: tensor<3xi8>, %{{.*}}: tensor<3xi8>, %{{.*}}: tensor<3xi8>) -> tensor<3xi8> {
// STRIP-DAG:     quant.scast %{{.*}} : tensor<3xi8> to [[Q:tensor<3x!quant.uniform<i8:f32:0, \{2.000000e\+00,3.000000e\+00,4.000000e\+00\}>>]]
// STRIP:         arith.addf
// STRIP:         [[SUM:%.*]] = quant.scast %{{.*}} : [[Q]] to tensor<3xi8>
// STRIP-NEXT:    func.return [[SUM]] : tensor<3xi8>

// The casts have cancelled out.

// FINAL:       func.func @multiply_add(%[[ARG0:.*]]: tensor<3xi8>, %[[ARG1:.*]]: tensor<3xi8>, %[[ARG2:.*]]: tensor<3xi8>) -> tensor<3xi8> {
// FINAL-DAG:     [[SCALES:%.*]] = arith.constant dense<[2.000000e+00, 3.000000e+00, 4.000000e+00]> : tensor<3xf32>
// FINAL-DAG:     [[ZERO_POINTS:%.*]] = arith.constant dense<0> : tensor<3xi8>
// FINAL-DAG:     [[FLOATS:%.*]] = tensor.empty() : tensor<3xf32>
// FINAL:         [[FLOAT0:%.*]] = linalg.generic {{.*}} ins(%[[ARG0]], [[SCALES]], [[ZERO_POINTS]] : tensor<3xi8>, tensor<3xf32>, tensor<3xi8>) outs([[FLOATS]] : tensor<3xf32>)
// FINAL:         [[FLOAT1:%.*]] = linalg.generic {{.*}} ins(%[[ARG1]], [[SCALES]], [[ZERO_POINTS]] : tensor<3xi8>, tensor<3xf32>, tensor<3xi8>) outs([[FLOATS]] : tensor<3xf32>)
// FINAL:         [[PRODUCT:%.*]] = arith.mulf [[FLOAT0]], [[FLOAT1]] : tensor<3xf32>
// FINAL:         [[FLOAT2:%.*]] = linalg.generic {{.*}} ins(%[[ARG2]], [[SCALES]], [[ZERO_POINTS]] : tensor<3xi8>, tensor<3xf32>, tensor<3xi8>) outs([[FLOATS]] : tensor<3xf32>)
// FINAL:         [[SUM:%.*]] = arith.addf [[PRODUCT]], [[FLOAT2]] : tensor<3xf32>
// FINAL:         [[STORED:%.*]] = linalg.generic {{.*}} ins([[SUM]], [[SCALES]], [[ZERO_POINTS]] : tensor<3xf32>, tensor<3xf32>, tensor<3xi8>)
// FINAL:         func.return [[STORED]] : tensor<3xi8>

// NOTHING-LEFT:     module {
// NOTHING-LEFT-NOT: quant
// NOTHING-LEFT-NOT: ml.
