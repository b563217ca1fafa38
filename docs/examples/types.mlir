// One scale for all values, with a zero point.
func.func private @per_tensor(tensor<4x8x!quant.uniform<u8:f32, 0.1:128>>)
// A narrower range than that of the storage type.
func.func private @narrow(tensor<4x8x!quant.uniform<i8<-127:127>:f32, 0.5>>)
// One scale for each index of dimension 1.
func.func private @per_axis(tensor<4x2x!quant.uniform<i8:f32:1, {2.0, 3.0:5}>>)
// One scale for each block of 1 x 4 values.
func.func private @sub_channel(tensor<2x8x!quant.uniform<i4:f32:{0:1, 1:4}, {{0.5, 1.0}, {1.5, 2.0}}>>)
// Only the range of the values is known.
func.func private @calibrated(tensor<4x!quant.calibrated<f32<-1.0:3.0>>>)
// Only the storage type is known.
func.func private @any(tensor<4x!quant.any<i8:f32>>)
// The value is kept in floating point.
func.func private @none(tensor<4x!quant.none<f32>>)
