module @jit_mlp attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x4xf32>) -> (tensor<1x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[[0.0628651082, -0.0660524294, 0.320211321, 0.0524500571, -0.267834693, 0.180797532, 6.520000e-01, 0.473540485], [-0.351867616, -0.632710754, -0.311637223, 0.0206629895, -1.1625154, -0.109395832, -0.622955501, -0.36613369], [-0.272129506, -0.158150077, 0.205815271, 0.521256685, -0.0642673299, 0.683231711, -0.332597345, 0.175755039], [0.451735079, 0.0470061488, -0.37174964, -0.460862696, -0.228862911, 0.110097565, -0.504809082, -0.104587786]]> : tensor<4x8xf32>
    %cst_0 = stablehlo.constant dense<[-0.0159225017, 0.054084558, 0.0214659125, 0.0355372727, -0.0653828606, -0.0129613634, 0.0783975496, 0.149343118]> : tensor<8xf32>
    %cst_1 = stablehlo.constant dense<[[-0.445146888, 0.535252869, 0.47583881], [0.276235282, 0.0934991836, -0.110988475], [0.515488148, 6.930560e-01, 0.636974096], [0.464959383, 0.126353055, -0.427205145], [-0.00157477392, 0.232098937, -0.455504566], [0.139696747, 0.151979774, 0.246088266], [-0.418648928, -0.233947188, -0.154303163], [-0.413587421, 0.614959418, -0.175330922]]> : tensor<8x3xf32>
    %cst_2 = stablehlo.constant dense<[0.032896962, -0.0258572549, 0.158347294]> : tensor<3xf32>
    %0 = stablehlo.dot_general %arg0, %cst, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4xf32>, tensor<4x8xf32>) -> tensor<1x8xf32>
    %1 = stablehlo.broadcast_in_dim %cst_0, dims = [1] : (tensor<8xf32>) -> tensor<1x8xf32>
    %2 = stablehlo.add %0, %1 : tensor<1x8xf32>
    %3 = stablehlo.tanh %2 : tensor<1x8xf32>
    %4 = stablehlo.dot_general %3, %cst_1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8xf32>, tensor<8x3xf32>) -> tensor<1x3xf32>
    %5 = stablehlo.broadcast_in_dim %cst_2, dims = [1] : (tensor<3xf32>) -> tensor<1x3xf32>
    %6 = stablehlo.add %4, %5 : tensor<1x3xf32>
    return %6 : tensor<1x3xf32>
  }
}
