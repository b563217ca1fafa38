module @jit_rnn attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x2x4xf32>) -> (tensor<1x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<[[0.134208545, 0.179335982, 0.661228716, -0.00695733447, 0.520919859, 0.701132417, 0.575082839, -1.182652], [0.614341855, 1.698100e-01, 0.211885676, 0.185613707, 0.191378579, 0.159707114, -0.179456651, -0.950817644], [-0.0544573627, -0.401865929, 0.54008168, -0.144383252, 0.0417376794, -4.248030e-01, -0.255311221, -0.00576653099], [-0.742687583, 0.150342554, -0.0530361272, -0.592859924, -1.19911647, 0.256526053, -0.148792014, -0.265004218]]> : tensor<4x8xf32>
    %cst_0 = stablehlo.constant dense<[[-0.0834932699, 0.642221212, -0.0176073015, 0.0306245349, -0.525759637, 0.582422316, 3.243810e-01, 0.377218425], [0.0168548562, 0.324086398, 0.131149516, 0.216795072, -0.0538083352, -0.521098077, 0.363754958, -0.684111535], [-0.0848304256, -0.0723096207, -0.368706733, 0.216771767, -0.0708272457, -0.154456273, 0.183791801, -0.168496132], [0.491078585, 0.124258131, -0.167702034, -0.687401473, -0.462360591, 0.384252697, -0.0178912375, -0.100099824], [0.580977201, -0.453484982, -0.207061306, -0.167084977, 0.207301527, -0.23459512, -0.216875955, -5.675060e-01], [0.257863969, 0.285013318, -0.168424621, 0.0577493906, -0.457019418, -0.166811138, 0.48717922, 0.0479880609], [0.816836833, -0.27831465, 0.205161527, -0.0691217482, 0.200046822, -0.00254960055, -0.198413491, -0.306748837], [1.08400774, -0.0273456089, -0.712997198, -0.229314938, 0.23972325, -0.176779673, 0.48099038, 0.35440132]]> : tensor<8x8xf32>
    %cst_1 = stablehlo.constant dense<[[-0.0538598411, -0.166953549, -0.355250806], [-0.24747555, -0.520834744, 0.425818384], [0.562397659, -0.444111884, -0.417788029], [-0.625263392, -0.34077394, -1.09825587], [-0.403856605, 0.458528847, -0.122213691], [0.30214116, -0.172876671, 0.622489869], [0.0704341903, -0.135058209, 0.902418196], [-0.114718124, -0.431767642, 0.0713859648]]> : tensor<8x3xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x8xf32>
    %1 = stablehlo.transpose %arg0, dims = [1, 0, 2] : (tensor<1x2x4xf32>) -> tensor<2x1x4xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %2:5 = stablehlo.while(%iterArg = %1, %iterArg_3 = %cst, %iterArg_4 = %cst_0, %iterArg_5 = %c, %iterArg_6 = %0) : tensor<2x1x4xf32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<i32>, tensor<1x8xf32>
    cond {
      %c_7 = stablehlo.constant dense<2> : tensor<i32>
      %4 = stablehlo.compare LT, %iterArg_5, %c_7, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %4 : tensor<i1>
    } do {
      %4 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_5) : (tensor<2x1x4xf32>, tensor<i32>) -> tensor<1x4xf32>
      %5 = func.call @closed_call(%iterArg_3, %iterArg_4, %iterArg_6, %4) : (tensor<4x8xf32>, tensor<8x8xf32>, tensor<1x8xf32>, tensor<1x4xf32>) -> tensor<1x8xf32>
      %c_7 = stablehlo.constant dense<1> : tensor<i32>
      %6 = stablehlo.add %iterArg_5, %c_7 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_3, %iterArg_4, %6, %5 : tensor<2x1x4xf32>, tensor<4x8xf32>, tensor<8x8xf32>, tensor<i32>, tensor<1x8xf32>
    }
    %3 = stablehlo.dot_general %2#4, %cst_1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8xf32>, tensor<8x3xf32>) -> tensor<1x3xf32>
    return %3 : tensor<1x3xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<2x1x4xf32>, %arg1: tensor<i32>) -> tensor<1x4xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 1, 4] : (tensor<2x1x4xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x1x4xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x1x4xf32>) -> tensor<1x4xf32>
    return %1 : tensor<1x4xf32>
  }
  func.func private @closed_call(%arg0: tensor<4x8xf32>, %arg1: tensor<8x8xf32>, %arg2: tensor<1x8xf32>, %arg3: tensor<1x4xf32>) -> tensor<1x8xf32> {
    %0 = stablehlo.dot_general %arg3, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x4xf32>, tensor<4x8xf32>) -> tensor<1x8xf32>
    %1 = stablehlo.dot_general %arg2, %arg1, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x8xf32>, tensor<8x8xf32>) -> tensor<1x8xf32>
    %2 = stablehlo.add %0, %1 : tensor<1x8xf32>
    %3 = stablehlo.tanh %2 : tensor<1x8xf32>
    return %3 : tensor<1x8xf32>
  }
}
