// jax.jit(masked_square_root).lower(...).as_text() of jax 0.10.2:
//
// def masked_square_root(x):
//     column = jax.lax.broadcasted_iota(jnp.int32, x.shape, 1)
//     mask = (column > 3) & ~(column > 5) | (column == 0)
//     return jnp.where(mask, jnp.sqrt(jnp.abs(x)), jnp.round(x))

module @jit_masked_square_root attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x8xf32>) -> (tensor<4x8xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.iota dim = 1 : tensor<4x8xi32>
    %c = stablehlo.constant dense<3> : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %2 = stablehlo.compare GT, %0, %1, SIGNED : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
    %c_0 = stablehlo.constant dense<5> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %4 = stablehlo.compare GT, %0, %3, SIGNED : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
    %5 = stablehlo.not %4 : tensor<4x8xi1>
    %6 = stablehlo.and %2, %5 : tensor<4x8xi1>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<4x8xi32>
    %8 = stablehlo.compare EQ, %0, %7, SIGNED : (tensor<4x8xi32>, tensor<4x8xi32>) -> tensor<4x8xi1>
    %9 = stablehlo.or %6, %8 : tensor<4x8xi1>
    %10 = stablehlo.abs %arg0 : tensor<4x8xf32>
    %11 = stablehlo.sqrt %10 : tensor<4x8xf32>
    %12 = call @round(%arg0) : (tensor<4x8xf32>) -> tensor<4x8xf32>
    %13 = call @_where(%9, %11, %12) : (tensor<4x8xi1>, tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
    return %13 : tensor<4x8xf32>
  }
  func.func private @round(%arg0: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.round_nearest_even %arg0 : tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
  func.func private @_where(%arg0: tensor<4x8xi1>, %arg1: tensor<4x8xf32>, %arg2: tensor<4x8xf32>) -> tensor<4x8xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<4x8xi1>, tensor<4x8xf32>
    return %0 : tensor<4x8xf32>
  }
}
