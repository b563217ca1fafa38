// RUN: xdsl-opt %s --parsing-diagnostics --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// CHECK:       'quant.dynamic_qcast' op operand #0 must be scalar or tensor of floating-point, but got 'i8'
func.func @f(%x: i8, %s: f32) {
  %0 = quant.dynamic_qcast %x, %s as <i8> : i8, f32 to i8
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op operand #1 must be scalar or tensor of floating-point, but got 'i8'
func.func @f(%x: f32, %s: i8) {
  %0 = quant.dynamic_qcast %x, %s as <i8> : f32, i8 to i8
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op operand #2 must be scalar or tensor of signless integer, but got 'f32'
func.func @f(%x: f32, %s: f32, %z: f32) {
  %0 = quant.dynamic_qcast %x, %s, %z as <i8> : f32, f32, f32 to i8
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op result #0 must be scalar or tensor of signless integer, f8E5M2, f8E4M3FN or f4E2M1FN, but got 'f32'
func.func @f(%x: f32, %s: f32) {
  %0 = quant.dynamic_qcast %x, %s as <i8> : f32, f32 to f32
  return
}

// -----

// CHECK:       'quant.dynamic_dcast' op operand #0 must be scalar or tensor of signless integer, f8E5M2, f8E4M3FN or f4E2M1FN, but got 'f32'
func.func @f(%x: f32, %s: f32) {
  %0 = quant.dynamic_dcast %x, %s as <i8> : f32, f32 to f32
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op failed to verify that input and result are both scalars or both tensors with matching shape
func.func @f(%x: tensor<4xf32>, %s: f32) {
  %0 = quant.dynamic_qcast %x, %s as <i8> : tensor<4xf32>, f32 to tensor<?xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected stored values of type 'i4' as in '!quant.any<u4>', but got 'i8'
func.func @f(%x: f32, %s: f32) {
  %0 = quant.dynamic_qcast %x, %s as <u4> : f32, f32 to i8
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected expressed values of type 'f16' as in '!quant.any<i8:f16>', but got 'f32'
func.func @f(%x: f32, %s: f32) {
  %0 = quant.dynamic_qcast %x, %s as <i8:f16> : f32, f32 to i8
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected scales of type 'f16' like the expressed values, but got 'f32'
func.func @f(%x: f16, %s: f32) {
  %0 = quant.dynamic_qcast %x, %s as <i8> : f16, f32 to i8
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected zero points of type 'i8' like the stored values, but got 'i32'
func.func @f(%x: f32, %s: f32, %z: i32) {
  %0 = quant.dynamic_qcast %x, %s, %z as <i8> : f32, f32, i32 to i8
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected scales and zero points of the same shape, but got 'tensor<4xf32>' and 'i8'
func.func @f(%x: tensor<4xf32>, %s: tensor<4xf32>, %z: i8) {
  %0 = quant.dynamic_qcast %x, %s, %z {0:1} as <i8> : tensor<4xf32>, tensor<4xf32>, i8 to tensor<4xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected ranked scales, but got 'tensor<*xf32>'
func.func @f(%x: tensor<4xf32>, %s: tensor<*xf32>) {
  %0 = quant.dynamic_qcast %x, %s {0:1} as <i8> : tensor<4xf32>, tensor<*xf32> to tensor<4xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected a tensor of scales for {0:1}, but got 'f32'
func.func @f(%x: tensor<4xf32>, %s: f32) {
  %0 = quant.dynamic_qcast %x, %s {0:1} as <i8> : tensor<4xf32>, f32 to tensor<4xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected dimensions less than 1 for 'tensor<4xf32>', but got {1:1}
func.func @f(%x: tensor<4xf32>, %s: tensor<4xf32>) {
  %0 = quant.dynamic_qcast %x, %s {1:1} as <i8> : tensor<4xf32>, tensor<4xf32> to tensor<4xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected no blocks for unranked 'tensor<*xf32>', but got {0:1}
func.func @f(%x: tensor<*xf32>, %s: tensor<4xf32>) {
  %0 = quant.dynamic_qcast %x, %s {0:1} as <i8> : tensor<*xf32>, tensor<4xf32> to tensor<*xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected 1 scale along dimension 0 of the values, but got 'tensor<4xf32>'
func.func @f(%x: tensor<4xf32>, %s: tensor<4xf32>) {
  %0 = quant.dynamic_qcast %x, %s as <i8> : tensor<4xf32>, tensor<4xf32> to tensor<4xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected scales of rank 3 like the values, or 1 like the blocks, but got 'tensor<4x4xf32>'
func.func @f(%x: tensor<4x4x4xf32>, %s: tensor<4x4xf32>) {
  %0 = quant.dynamic_qcast %x, %s {0:1} as <i8> : tensor<4x4x4xf32>, tensor<4x4xf32> to tensor<4x4x4xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected 3 scales along dimension 1 of the values, but got 'tensor<1x2xf32>'
func.func @f(%x: tensor<4x10xf32>, %s: tensor<1x2xf32>) {
  %0 = quant.dynamic_qcast %x, %s {1:4} as <i8> : tensor<4x10xf32>, tensor<1x2xf32> to tensor<4x10xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected 1 scale along dimension 0 of the values, but got 'tensor<4x3xf32>'
func.func @f(%x: tensor<4x10xf32>, %s: tensor<4x3xf32>) {
  %0 = quant.dynamic_qcast %x, %s {1:4} as <i8> : tensor<4x10xf32>, tensor<4x3xf32> to tensor<4x10xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected ascending quantized dimensions from 0, but got [1, 0]
func.func @f(%x: tensor<4x10xf32>, %s: tensor<4x3xf32>) {
  %0 = quant.dynamic_qcast %x, %s {1:4, 0:1} as <i8> : tensor<4x10xf32>, tensor<4x3xf32> to tensor<4x10xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected positive block sizes, but got [1, 0]
func.func @f(%x: tensor<4x10xf32>, %s: tensor<4x3xf32>) {
  %0 = quant.dynamic_qcast %x, %s {0:1, 1:0} as <i8> : tensor<4x10xf32>, tensor<4x3xf32> to tensor<4x10xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected a block size for each of 1 quantized dimensions, but got 0
func.func @f(%x: tensor<4xf32>, %s: tensor<4xf32>) {
  %0 = "quant.dynamic_qcast"(%x, %s) <{quantized_dimensions = array<i32: 0>, block_sizes = array<i64>, storage = !quant.any<i8>}> : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi8>
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected stored values of type 'f8E4M3FN' as in '!quant.any<f8E4M3FN>', but got 'i8'
func.func @f(%x: f32, %s: f32) {
  %0 = quant.dynamic_qcast %x, %s as <f8E4M3FN> : f32, f32 to i8
  return
}

// -----

// CHECK:       'quant.dynamic_qcast' op expected no zero points for storage type 'f8E4M3FN', but got 'i8'
func.func @f(%x: f32, %s: f32, %z: i8) {
  %0 = quant.dynamic_qcast %x, %s, %z as <f8E4M3FN> : f32, f32, i8 to f8E4M3FN
  return
}

// -----

// CHECK:       'quant.dynamic_dcast' op expected no zero points for storage type '!quant.quantile<ui1:f32, ...>', but got 'i1'
func.func @f(%x: i1, %s: f32, %z: i1) {
  %0 = quant.dynamic_dcast %x, %s, %z as <!quant.quantile<ui1:f32, {-1.0,1.0}>> : i1, f32, i1 to f32
  return
}

// -----

// CHECK:       'quant.choose_parameters' op operand #0 must be scalar or tensor of floating-point, but got 'tensor<4xi8>'
func.func @f(%x: tensor<4xi8>) {
  %0 = quant.choose_parameters %x as <i8> : tensor<4xi8> to f32
  return
}

// -----

// CHECK:       'quant.choose_parameters' op result #0 must be scalar or tensor of floating-point, but got 'i8'
func.func @f(%x: tensor<4xf32>) {
  %0 = quant.choose_parameters %x as <i8> : tensor<4xf32> to i8
  return
}

// -----

// CHECK:       'quant.choose_parameters' op result #1 must be scalar or tensor of signless integer, but got 'f32'
func.func @f(%x: tensor<4xf32>) {
  %0, %1 = quant.choose_parameters %x as <i8> : tensor<4xf32> to f32, f32
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected a ranked tensor, but got 'f32'
func.func @f(%x: f32) {
  %0 = quant.choose_parameters %x as <i8> : f32 to f32
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected a ranked tensor, but got 'tensor<*xf32>'
func.func @f(%x: tensor<*xf32>) {
  %0 = quant.choose_parameters %x as <i8> : tensor<*xf32> to f32
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected scales of type 'tensor<3xf32>', but got 'tensor<3x1xf32>'
func.func @f(%x: tensor<5x2xf32>) {
  %0 = quant.choose_parameters %x {0:2} as <i8> : tensor<5x2xf32> to tensor<3x1xf32>
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected 3 scales along dimension 0 of the values, but got 'tensor<2xf32>'
func.func @f(%x: tensor<5xf32>) {
  %0 = quant.choose_parameters %x {0:2} as <i8> : tensor<5xf32> to tensor<2xf32>
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected no zero points for storage type 'f4E2M1FN', but got 'i4'
func.func @f(%x: tensor<5xf32>) {
  %0, %1 = quant.choose_parameters %x as <f4E2M1FN> : tensor<5xf32> to f32, i4
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected numbers of both signs for '!quant.any<f4E2M1FN<0:6>>', which has no negative numbers
func.func @f(%x: tensor<5xf32>) {
  %0 = quant.choose_parameters %x as <f4E2M1FN<0:6>> : tensor<5xf32> to f32
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected numbers of both signs for '!quant.any<!quant.quantile<ui2:f32, {-1.000000e+00,1.000000e+00,2.000000e+00,3.000000e+00}><1:3>>', which has no negative numbers
func.func @f(%x: tensor<5xf32>) {
  %0 = quant.choose_parameters %x as <!quant.quantile<ui2:f32, {-1.0,1.0,2.0,3.0}><1:3>> : tensor<5xf32> to f32
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected zero points for '!quant.any<u8>', which has no negative values
func.func @f(%x: tensor<4xf32>) {
  %0 = quant.choose_parameters %x as <u8> : tensor<4xf32> to f32
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected scales of type 'f32', but got 'tensor<f32>'
func.func @f(%x: tensor<4xf32>) {
  %0 = quant.choose_parameters %x as <i8> : tensor<4xf32> to tensor<f32>
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected scales of type 'tensor<?xf32>', but got 'tensor<8xf32>'
func.func @f(%x: tensor<4x?xf32>) {
  %0 = quant.choose_parameters %x {1:1} as <i8> : tensor<4x?xf32> to tensor<8xf32>
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected zero points of type 'i8' like the stored values, but got 'i4'
func.func @f(%x: tensor<4xf32>) {
  %0, %1 = quant.choose_parameters %x as <u8> : tensor<4xf32> to f32, i4
  return
}

// -----

// CHECK:       integer value too large
func.func @f(%x: tensor<4xf32>, %s: tensor<4xf32>) {
  %0 = quant.dynamic_qcast %x, %s {4294967296:1} as <i8> : tensor<4xf32>, tensor<4xf32> to tensor<4xi8>
  return
}

// -----

// CHECK:       integer value too large
func.func @f(%x: tensor<4xf32>, %s: tensor<4xf32>) {
  %0 = quant.dynamic_qcast %x, %s {0:9223372036854775808} as <i8> : tensor<4xf32>, tensor<4xf32> to tensor<4xi8>
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected zero points for '!quant.any<i8<-5:0>>', which has no positive values
func.func @f(%x: tensor<4xf32>) {
  %0 = quant.choose_parameters %x as <i8<-5:0>> : tensor<4xf32> to f32
  return
}

// -----

// CHECK:       'quant.choose_parameters' op expected zero points for '!quant.any<i8<3:5>>', which has no negative values
func.func @f(%x: tensor<4xf32>) {
  %0 = quant.choose_parameters %x as <i8<3:5>> : tensor<4xf32> to f32
  return
}
