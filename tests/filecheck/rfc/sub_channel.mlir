// RUN: xdsl-opt %s --split-input-file | filecheck %s --match-full-lines
// RUN: xdsl-opt %s -p lower-quant-ops --split-input-file | filecheck %s --check-prefix=LOWER --match-full-lines

// The examples of the document "Supporting Sub-Channel (or Blockwise) Quantization".

// The proposed type. The document has symbols for scales and zero points, and dots between
// the second and the last row.

func.func private @type(
  tensor<6x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{1.0:1, 2.0:2}, {3.0:3, 4.0:4}, {5.0:5, 6.0:6}, {7.0:7, 8.0:8}, {9.0:9, 10.0:10}, {11.0:11, 12.0:12}}>>)

// CHECK:         func.func private @type(tensor<6x4x!quant.uniform<i8:f32:{0:1, 1:2}, {{{{}}1.000000e+00:1, 2.000000e+00:2}, {3.000000e+00:3, 4.000000e+00:4}, {5.000000e+00:5, 6.000000e+00:6}, {7.000000e+00:7, 8.000000e+00:8}, {9.000000e+00:9, 1.000000e+01:10}, {1.100000e+01:11, 1.200000e+01:12}}>>) -> ()
// CHECK-NEXT:  }

// -----

// Block sizes of 2 and 4 on a tensor of [6, 8]: the scale of an element is that at its
// index divided by the block sizes.

!qalias = !quant.uniform<i8:f32:{0:2, 1:4}, {{1.0, 2.0}, {3.0, 4.0}, {5.0, 6.0}}>
func.func @blocks(%arg0: tensor<6x8x!qalias>) -> tensor<6x8xf32> {
  %0 = quant.dcast %arg0 : tensor<6x8x!qalias> to tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}

// LOWER:         func.func @blocks(%arg0: tensor<6x8x!quant.uniform<i8:f32:{0:2, 1:4}, {{{{}}1.000000e+00, 2.000000e+00}, {3.000000e+00, 4.000000e+00}, {5.000000e+00, 6.000000e+00}}>>) -> tensor<6x8xf32> {
// LOWER-NEXT:      %0 = quant.scast %arg0 : tensor<6x8x!quant.uniform<i8:f32:{0:2, 1:4}, {{{{}}1.000000e+00, 2.000000e+00}, {3.000000e+00, 4.000000e+00}, {5.000000e+00, 6.000000e+00}}>> to tensor<6x8xi8>
// LOWER-NEXT:      %1 = arith.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00], [5.000000e+00, 6.000000e+00]]> : tensor<3x2xf32>
// LOWER-NEXT:      %2 = arith.constant dense<0> : tensor<3x2xi8>
// LOWER-NEXT:      %3 = tensor.empty() : tensor<6x8xf32>
// LOWER-NEXT:      %4 = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> ((d0 floordiv 2), (d1 floordiv 4))>, affine_map<(d0, d1) -> ((d0 floordiv 2), (d1 floordiv 4))>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins(%0, %1, %2 : tensor<6x8xi8>, tensor<3x2xf32>, tensor<3x2xi8>) outs(%3 : tensor<6x8xf32>) {
// LOWER-NEXT:      ^bb0(%in: i8, %scale: f32, %zero_point: i8, %out: f32):
// LOWER-NEXT:        %5 = arith.sitofp %in : i8 to f32
// LOWER-NEXT:        %6 = arith.sitofp %zero_point : i8 to f32
// LOWER-NEXT:        %7 = arith.subf %5, %6 : f32
// LOWER-NEXT:        %8 = arith.mulf %7, %scale : f32
// LOWER-NEXT:        linalg.yield %8 : f32
// LOWER-NEXT:      } -> tensor<6x8xf32>
// LOWER-NEXT:      func.return %4 : tensor<6x8xf32>
// LOWER-NEXT:    }
// LOWER-NEXT:  }

// -----

// Case 1: ranked input. Corrected here:
// * The scales of the input are {{{1.0:1, 2.0:2}},{{3.0:3, 4.0:4}}} in the document, of shape
//   2x1x2, and a flat list in the output. They have a dimension for each one of the tensor:
//   1x2x1x2, which is the type of the document's constants; their lists lack a bracket, too.
// * i8<-128:127> is not narrowed: it prints without a range, and there is no clamp.
// * `quant.scast` has an operand of type tensor<6x4x6x4xi8>, not tensor<6x4xi8>.

!qalias = !quant.uniform<i8<-128:127>:f32:{1:2, 3:2}, {{{{1.0:1, 2.0:2}}, {{3.0:3, 4.0:4}}}}>
func.func @ranked(%arg0: tensor<6x4x6x4xf32>) -> tensor<6x4x6x4x!qalias> {
  %0 = "quant.qcast"(%arg0) : (tensor<6x4x6x4xf32>) -> tensor<6x4x6x4x!qalias>
  return %0 : tensor<6x4x6x4x!qalias>
}

// LOWER:         func.func @ranked(%arg0: tensor<6x4x6x4xf32>) -> tensor<6x4x6x4x!quant.uniform<i8:f32:{1:2, 3:2}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>> {
// LOWER-NEXT:      %0 = arith.constant dense<{{\[\[}}{{\[\[}}1.000000e+00, 2.000000e+00]], {{\[\[}}3.000000e+00, 4.000000e+00]]]]> : tensor<1x2x1x2xf32>
// LOWER-NEXT:      %1 = arith.constant dense<{{\[\[}}{{\[\[}}1, 2]], {{\[\[}}3, 4]]]]> : tensor<1x2x1x2xi8>
// LOWER-NEXT:      %2 = tensor.empty() : tensor<6x4x6x4xi8>
// LOWER-NEXT:      %3 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>, affine_map<(d0, d1, d2, d3) -> (0, (d1 floordiv 2), 0, (d3 floordiv 2))>, affine_map<(d0, d1, d2, d3) -> (0, (d1 floordiv 2), 0, (d3 floordiv 2))>, affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>], iterator_types = ["parallel", "parallel", "parallel", "parallel"]} ins(%arg0, %0, %1 : tensor<6x4x6x4xf32>, tensor<1x2x1x2xf32>, tensor<1x2x1x2xi8>) outs(%2 : tensor<6x4x6x4xi8>) {
// LOWER-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// LOWER-NEXT:        %4 = arith.divf %in, %scale : f32
// LOWER-NEXT:        %5 = arith.sitofp %zero_point : i8 to f32
// LOWER-NEXT:        %6 = arith.addf %4, %5 : f32
// LOWER-NEXT:        %7 = arith.fptosi %6 : f32 to i8
// LOWER-NEXT:        linalg.yield %7 : i8
// LOWER-NEXT:      } -> tensor<6x4x6x4xi8>
// LOWER-NEXT:      %8 = quant.scast %3 : tensor<6x4x6x4xi8> to tensor<6x4x6x4x!quant.uniform<i8:f32:{1:2, 3:2}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>>
// LOWER-NEXT:      func.return %8 : tensor<6x4x6x4x!quant.uniform<i8:f32:{1:2, 3:2}, {{{{}}{{{{}}1.000000e+00:1, 2.000000e+00:2}}, {{{{}}3.000000e+00:3, 4.000000e+00:4}}}}>>
// LOWER-NEXT:    }
// LOWER-NEXT:  }

// -----

// Case 2: unranked input, with compact scales. Corrected here:
// * The printed alias has a flat list of scales; the list stays nested.
// * `#map` has five dimensions and four results; it is the identity of all five.
// * `#map1` is of the reshaped tensor, in which axes 1 and 3 are dimensions 1 and 3, but
//   reads scales of shape 1x4x1x4x1, to which four elements cannot be reshaped; here scales
//   stay 2x2, and the map is (d1 floordiv 2, d3 floordiv 2).
// * What is between axes 1 and 3 is split off the rest of the shape: at 1, not at 3.

!qalias = !quant.uniform<i8<-128:127>:f32:{1:2, 3:2}, {{1.0:1, 2.0:2}, {3.0:3, 4.0:4}}>
func.func @unranked(%arg0: tensor<*xf32>) -> tensor<*x!qalias> {
  %0 = "quant.qcast"(%arg0) : (tensor<*xf32>) -> tensor<*x!qalias>
  return %0 : tensor<*x!qalias>
}

// LOWER:         func.func @unranked(%arg0: tensor<*xf32>) -> tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {{{{}}1.000000e+00:1, 2.000000e+00:2}, {3.000000e+00:3, 4.000000e+00:4}}>> {
// LOWER-NEXT:      %0 = shape.shape_of %arg0 : tensor<*xf32> -> tensor<?xindex>
// LOWER-NEXT:      %1 = arith.constant 1 : index
// LOWER-NEXT:      %2, %3 = "shape.split_at"(%0, %1) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// LOWER-NEXT:      %4 = arith.constant 1 : index
// LOWER-NEXT:      %5, %6 = "shape.split_at"(%3, %4) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// LOWER-NEXT:      %7 = shape.num_elements %2 : tensor<?xindex> -> index
// LOWER-NEXT:      %8 = arith.constant 4 : index
// LOWER-NEXT:      %9 = arith.constant 1 : index
// LOWER-NEXT:      %10, %11 = "shape.split_at"(%6, %9) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// LOWER-NEXT:      %12 = arith.constant 1 : index
// LOWER-NEXT:      %13, %14 = "shape.split_at"(%11, %12) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)
// LOWER-NEXT:      %15 = shape.num_elements %10 : tensor<?xindex> -> index
// LOWER-NEXT:      %16 = arith.constant 4 : index
// LOWER-NEXT:      %17 = shape.num_elements %14 : tensor<?xindex> -> index
// LOWER-NEXT:      %18 = tensor.from_elements %7, %8, %15, %16, %17 : tensor<5xindex>
// LOWER-NEXT:      %19 = tensor.reshape %arg0(%18) : (tensor<*xf32>, tensor<5xindex>) -> tensor<?x4x?x4x?xf32>
// LOWER-NEXT:      %20 = arith.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// LOWER-NEXT:      %21 = arith.constant dense<{{\[\[}}1, 2], [3, 4]]> : tensor<2x2xi8>
// LOWER-NEXT:      %22 = arith.constant 0 : index
// LOWER-NEXT:      %23 = tensor.dim %19, %22 : tensor<?x4x?x4x?xf32>
// LOWER-NEXT:      %24 = arith.constant 2 : index
// LOWER-NEXT:      %25 = tensor.dim %19, %24 : tensor<?x4x?x4x?xf32>
// LOWER-NEXT:      %26 = arith.constant 4 : index
// LOWER-NEXT:      %27 = tensor.dim %19, %26 : tensor<?x4x?x4x?xf32>
// LOWER-NEXT:      %28 = tensor.empty(%23, %25, %27) : tensor<?x4x?x4x?xi8>
// LOWER-NEXT:      %29 = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>, affine_map<(d0, d1, d2, d3, d4) -> ((d1 floordiv 2), (d3 floordiv 2))>, affine_map<(d0, d1, d2, d3, d4) -> ((d1 floordiv 2), (d3 floordiv 2))>, affine_map<(d0, d1, d2, d3, d4) -> (d0, d1, d2, d3, d4)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "parallel"]} ins(%19, %20, %21 : tensor<?x4x?x4x?xf32>, tensor<2x2xf32>, tensor<2x2xi8>) outs(%28 : tensor<?x4x?x4x?xi8>) {
// LOWER-NEXT:      ^bb0(%in: f32, %scale: f32, %zero_point: i8, %out: i8):
// LOWER-NEXT:        %30 = arith.divf %in, %scale : f32
// LOWER-NEXT:        %31 = arith.sitofp %zero_point : i8 to f32
// LOWER-NEXT:        %32 = arith.addf %30, %31 : f32
// LOWER-NEXT:        %33 = arith.fptosi %32 : f32 to i8
// LOWER-NEXT:        linalg.yield %33 : i8
// LOWER-NEXT:      } -> tensor<?x4x?x4x?xi8>
// LOWER-NEXT:      %34 = tensor.reshape %29(%0) : (tensor<?x4x?x4x?xi8>, tensor<?xindex>) -> tensor<*xi8>
// LOWER-NEXT:      %35 = quant.scast %34 : tensor<*xi8> to tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {{{{}}1.000000e+00:1, 2.000000e+00:2}, {3.000000e+00:3, 4.000000e+00:4}}>>
// LOWER-NEXT:      func.return %35 : tensor<*x!quant.uniform<i8:f32:{1:2, 3:2}, {{{{}}1.000000e+00:1, 2.000000e+00:2}, {3.000000e+00:3, 4.000000e+00:4}}>>
// LOWER-NEXT:    }
// LOWER-NEXT:  }
