// RUN: xdsl-opt %s -p quant-requantize-to-tosa --verify-diagnostics --split-input-file | filecheck %s --match-full-lines

// CHECK:       'quant.qcast' op cannot be converted to 'tosa.rescale': zero-point-corrected values from -2147483648 to 2147483647 are out of range for a shift of 31; expected -1073741824 to 1073741823, use a narrower storage range
func.func @f(%q: tensor<2x!quant.fixed_point<i32:f32, 1073741824p-31>>) -> tensor<2x!quant.fixed_point<i8:f32, 1073741824p-30>> {
  %e = quant.dcast %q : tensor<2x!quant.fixed_point<i32:f32, 1073741824p-31>> to tensor<2xf32>
  %r = quant.qcast %e : tensor<2xf32> to tensor<2x!quant.fixed_point<i8:f32, 1073741824p-30>>
  return %r : tensor<2x!quant.fixed_point<i8:f32, 1073741824p-30>>
}

// -----

// CHECK:       'quant.qcast' op cannot be converted to 'tosa.rescale': unsupported zero point 3 of 'i16'; expected 0
func.func @f(%q: tensor<2x!quant.fixed_point<i8:f32, 1073741824p-31>>) -> tensor<2x!quant.fixed_point<i16:f32, 1073741824p-30:3>> {
  %e = quant.dcast %q : tensor<2x!quant.fixed_point<i8:f32, 1073741824p-31>> to tensor<2xf32>
  %r = quant.qcast %e : tensor<2xf32> to tensor<2x!quant.fixed_point<i16:f32, 1073741824p-30:3>>
  return %r : tensor<2x!quant.fixed_point<i16:f32, 1073741824p-30:3>>
}
