module @jit_f attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x4xf32>) -> (tensor<1x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[[0.0628651082, -0.0660524294, 0.320211321, 0.0524500571, -0.267834693, 0.180797532, 6.520000e-01, 0.473540485], [-0.351867616, -0.632710754, -0.311637223, 0.0206629895, -1.1625154, -0.109395832, -0.622955501, -0.36613369], [-0.272129506, -0.158150077, 0.205815271, 0.521256685, -0.0642673299, 0.683231711, -0.332597345, 0.175755039], [0.451735079, 0.0470061488, -0.37174964, -0.460862696, -0.228862911, 0.110097565, -0.504809082, -0.104587786]]> : tensor<4x8xf32>
    %cst_0 = stablehlo.constant dense<[-0.0318450034, 0.108169116, 0.0429318249, 0.0710745454, -0.130765721, -0.0259227268, 0.156795099, 0.298686236]> : tensor<8xf32>
    %cst_1 = stablehlo.constant dense<[[-0.629532754, 0.756961882, 0.672937691], [0.390655696, 0.132227808, -0.156961411], [0.729010344, 0.980129182, 0.900817453], [0.657551885, 0.17869021, -0.604159296], [-0.00222706655, 0.328237474, -0.644180715], [0.197561026, 0.214931846, 0.348021358], [-0.592058957, -0.330851287, -0.218217626], [-5.849010e-01, 0.869683921, -0.247955367]]> : tensor<8x3xf32>
    %0 = stablehlo.dot_general %arg0, %cst, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4xf32>, tensor<4x8xf32>) -> tensor<1x8xf32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %2 = stablehlo.add %0, %1 : tensor<1x8xf32>
    %3 = call @relu(%2) : (tensor<1x8xf32>) -> tensor<1x8xf32>
    %4 = stablehlo.dot_general %3, %cst_1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8xf32>, tensor<8x3xf32>) -> tensor<1x3xf32>
    %cst_2 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %5 = stablehlo.reduce(%4 init: %cst_2) applies stablehlo.maximum across dimensions = [1] : (tensor<1x3xf32>, tensor<f32>) -> tensor<1xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<1xf32>
    %7 = stablehlo.maximum %6, %5 : tensor<1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
    %10 = stablehlo.subtract %4, %9 : tensor<1x3xf32>
    %11 = stablehlo.exponential %10 : tensor<1x3xf32>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %12 = stablehlo.reduce(%11 init: %cst_4) applies stablehlo.add across dimensions = [1] : (tensor<1x3xf32>, tensor<f32>) -> tensor<1xf32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<1xf32>) -> tensor<1x1xf32>
    %14 = stablehlo.broadcast_in_dim %13, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x3xf32>
    %15 = stablehlo.divide %11, %14 : tensor<1x3xf32>
    return %15 : tensor<1x3xf32>
  }
  func.func private @relu(%arg0: tensor<1x8xf32>) -> tensor<1x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x8xf32>
    return %1 : tensor<1x8xf32>
  }
}

