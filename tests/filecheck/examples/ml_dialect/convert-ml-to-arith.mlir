// RUN: xdsl-opt %s -p convert-ml-to-arith | filecheck %s
// RUN: xdsl-opt %s -p convert-ml-to-arith | mlir-opt

// One per-layer type: integers.

// CHECK-LABEL: @add
// CHECK-SAME:      (%a: !quant.uniform<i8:f32, 1.000000e-01:3>, %b: !quant.uniform<i8:f32, 1.000000e-01:3>)
func.func @add(%a: !quant.uniform<i8:f32, 0.1:3>, %b: !quant.uniform<i8:f32, 0.1:3>) -> !quant.uniform<i8:f32, 0.1:3> {
  // CHECK-NEXT:  [[A:%.*]] = quant.scast %a : !quant.uniform<i8:f32, 1.000000e-01:3> to i8
  // CHECK-NEXT:  [[B:%.*]] = quant.scast %b : !quant.uniform<i8:f32, 1.000000e-01:3> to i8
  // CHECK-NEXT:  [[WIDE_A:%.*]] = arith.extsi [[A]] : i8 to i16
  // CHECK-NEXT:  [[WIDE_B:%.*]] = arith.extsi [[B]] : i8 to i16
  // CHECK-NEXT:  [[ZERO_POINT:%.*]] = arith.constant 3 : i16
  // CHECK-NEXT:  [[SUM:%.*]] = arith.addi [[WIDE_A]], [[WIDE_B]] : i16
  // CHECK-NEXT:  [[STORED:%.*]] = arith.subi [[SUM]], [[ZERO_POINT]] : i16
  // CHECK-NEXT:  [[MIN:%.*]] = arith.constant -128 : i16
  // CHECK-NEXT:  [[MAX:%.*]] = arith.constant 127 : i16
  // CHECK-NEXT:  [[RAISED:%.*]] = arith.maxsi [[STORED]], [[MIN]] : i16
  // CHECK-NEXT:  [[CLAMPED:%.*]] = arith.minsi [[RAISED]], [[MAX]] : i16
  // CHECK-NEXT:  [[NARROW:%.*]] = arith.trunci [[CLAMPED]] : i16 to i8
  // CHECK-NEXT:  [[RESULT:%.*]] = quant.scast [[NARROW]] : i8 to !quant.uniform<i8:f32, 1.000000e-01:3>
  // CHECK-NEXT:  func.return [[RESULT]]
  %0 = ml.add %a, %b : (!quant.uniform<i8:f32, 0.1:3>, !quant.uniform<i8:f32, 0.1:3>) -> !quant.uniform<i8:f32, 0.1:3>
  func.return %0 : !quant.uniform<i8:f32, 0.1:3>
}

// CHECK-LABEL: @sub
// CHECK-SAME:      (%a: tensor<?x4x!quant.uniform<u16<0:1023>:f32, 5.000000e-01:512>>, %b: tensor<?x4x!quant.uniform<u16<0:1023>:f32, 5.000000e-01:512>>)
func.func @sub(%a: tensor<?x4x!quant.uniform<u16<0:1023>:f32, 0.5:512>>, %b: tensor<?x4x!quant.uniform<u16<0:1023>:f32, 0.5:512>>) -> tensor<?x4x!quant.uniform<u16<0:1023>:f32, 0.5:512>> {
  // CHECK-NEXT:  [[A:%.*]] = quant.scast %a : {{.*}} to tensor<?x4xi16>
  // CHECK-NEXT:  [[B:%.*]] = quant.scast %b : {{.*}} to tensor<?x4xi16>
  // CHECK-NEXT:  [[AXIS:%.*]] = arith.constant 0 : index
  // CHECK-NEXT:  [[SIZE:%.*]] = tensor.dim [[A]], [[AXIS]] : tensor<?x4xi16>
  // CHECK-NEXT:  [[EMPTY:%.*]] = tensor.empty([[SIZE]]) : tensor<?x4xi16>
  // CHECK-NEXT:  [[STORED:%.*]] = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]} ins([[A]], [[B]] : tensor<?x4xi16>, tensor<?x4xi16>) outs([[EMPTY]] : tensor<?x4xi16>) {
  // CHECK-NEXT:  ^{{.*}}([[X:%.*]]: i16, [[Y:%.*]]: i16, {{%.*}}: i16):
  // CHECK-NEXT:    [[WIDE_X:%.*]] = arith.extui [[X]] : i16 to i32
  // CHECK-NEXT:    [[WIDE_Y:%.*]] = arith.extui [[Y]] : i16 to i32
  // CHECK-NEXT:    [[ZERO_POINT:%.*]] = arith.constant 512 : i32
  // CHECK-NEXT:    [[DIFFERENCE:%.*]] = arith.subi [[WIDE_X]], [[WIDE_Y]] : i32
  // CHECK-NEXT:    [[SHIFTED:%.*]] = arith.addi [[DIFFERENCE]], [[ZERO_POINT]] : i32
  // CHECK-NEXT:    [[MIN:%.*]] = arith.constant 0 : i32
  // CHECK-NEXT:    [[MAX:%.*]] = arith.constant 1023 : i32
  // CHECK-NEXT:    [[RAISED:%.*]] = arith.maxsi [[SHIFTED]], [[MIN]] : i32
  // CHECK-NEXT:    [[CLAMPED:%.*]] = arith.minsi [[RAISED]], [[MAX]] : i32
  // CHECK-NEXT:    [[NARROW:%.*]] = arith.trunci [[CLAMPED]] : i32 to i16
  // CHECK-NEXT:    linalg.yield [[NARROW]] : i16
  // CHECK-NEXT:  } -> tensor<?x4xi16>
  // CHECK-NEXT:  [[RESULT:%.*]] = quant.scast [[STORED]] : tensor<?x4xi16> to tensor<?x4x!quant.uniform<u16<0:1023>:f32, 5.000000e-01:512>>
  // CHECK-NEXT:  func.return [[RESULT]]
  %0 = ml.sub %a, %b : (tensor<?x4x!quant.uniform<u16<0:1023>:f32, 0.5:512>>, tensor<?x4x!quant.uniform<u16<0:1023>:f32, 0.5:512>>) -> tensor<?x4x!quant.uniform<u16<0:1023>:f32, 0.5:512>>
  func.return %0 : tensor<?x4x!quant.uniform<u16<0:1023>:f32, 0.5:512>>
}

// A product is exact if the scale is an integer.

// CHECK-LABEL: @mul
func.func @mul(%a: !quant.uniform<i8:f32, 3.0:-1>) -> !quant.uniform<i8:f32, 3.0:-1> {
  // CHECK:       [[A:%.*]] = arith.extsi {{%.*}} : i8 to i32
  // CHECK-NEXT:  [[B:%.*]] = arith.extsi {{%.*}} : i8 to i32
  // CHECK-NEXT:  [[ZERO_POINT:%.*]] = arith.constant -1 : i32
  // CHECK-NEXT:  [[STEPS_A:%.*]] = arith.subi [[A]], [[ZERO_POINT]] : i32
  // CHECK-NEXT:  [[STEPS_B:%.*]] = arith.subi [[B]], [[ZERO_POINT]] : i32
  // CHECK-NEXT:  [[PRODUCT:%.*]] = arith.muli [[STEPS_A]], [[STEPS_B]] : i32
  // CHECK-NEXT:  [[SCALE:%.*]] = arith.constant 3 : i32
  // CHECK-NEXT:  [[SCALED:%.*]] = arith.muli [[PRODUCT]], [[SCALE]] : i32
  // CHECK-NEXT:  {{%.*}} = arith.addi [[SCALED]], [[ZERO_POINT]] : i32
  %0 = ml.mul %a, %a : (!quant.uniform<i8:f32, 3.0:-1>, !quant.uniform<i8:f32, 3.0:-1>) -> !quant.uniform<i8:f32, 3.0:-1>
  func.return %0 : !quant.uniform<i8:f32, 3.0:-1>
}

// The integers in between are as wide as they have to be.

// CHECK-LABEL: @widths
func.func @widths(%a: !quant.uniform<i4:f32, 0.5>, %b: !quant.uniform<u8:f32, 0.5>, %c: !quant.uniform<i16:f32, 0.5>, %d: !quant.uniform<u32:f32, 0.5>, %e: !quant.uniform<u16:f32, 1.0>) {
  // CHECK:       arith.extsi {{%.*}} : i4 to i8
  // CHECK:       arith.extui {{%.*}} : i8 to i16
  // CHECK:       arith.extsi {{%.*}} : i16 to i32
  // CHECK:       arith.extui {{%.*}} : i32 to i64
  // CHECK:       arith.extui {{%.*}} : i16 to i64
  // CHECK:       arith.muli {{%.*}} : i64
  %0 = ml.add %a, %a : (!quant.uniform<i4:f32, 0.5>, !quant.uniform<i4:f32, 0.5>) -> !quant.uniform<i4:f32, 0.5>
  %1 = ml.add %b, %b : (!quant.uniform<u8:f32, 0.5>, !quant.uniform<u8:f32, 0.5>) -> !quant.uniform<u8:f32, 0.5>
  %2 = ml.add %c, %c : (!quant.uniform<i16:f32, 0.5>, !quant.uniform<i16:f32, 0.5>) -> !quant.uniform<i16:f32, 0.5>
  %3 = ml.add %d, %d : (!quant.uniform<u32:f32, 0.5>, !quant.uniform<u32:f32, 0.5>) -> !quant.uniform<u32:f32, 0.5>
  %4 = ml.mul %e, %e : (!quant.uniform<u16:f32, 1.0>, !quant.uniform<u16:f32, 1.0>) -> !quant.uniform<u16:f32, 1.0>
  func.return
}

// Everything else: floats.

// CHECK-LABEL: @inexact_product
func.func @inexact_product(%a: !quant.uniform<i8:f32, 0.5>) -> !quant.uniform<i8:f32, 0.5> {
  // CHECK-NEXT:  %a_f32 = quant.dcast %a : !quant.uniform<i8:f32, 5.000000e-01> to f32
  // CHECK-NEXT:  %a_f32_1 = quant.dcast %a : !quant.uniform<i8:f32, 5.000000e-01> to f32
  // CHECK-NEXT:  %product_f32 = arith.mulf %a_f32, %a_f32_1 : f32
  // CHECK-NEXT:  %product = quant.qcast %product_f32 : f32 to !quant.uniform<i8:f32, 5.000000e-01>
  // CHECK-NEXT:  func.return %product
  %product = ml.mul %a, %a : (!quant.uniform<i8:f32, 0.5>, !quant.uniform<i8:f32, 0.5>) -> !quant.uniform<i8:f32, 0.5>
  func.return %product : !quant.uniform<i8:f32, 0.5>
}

// CHECK-LABEL: @products_beyond_64_bits
func.func @products_beyond_64_bits(%a: !quant.uniform<i32:f32, 1.0>, %b: !quant.uniform<i8:f32, 1.0e+30>) {
  // CHECK:       arith.mulf
  // CHECK:       arith.mulf
  %0 = ml.mul %a, %a : (!quant.uniform<i32:f32, 1.0>, !quant.uniform<i32:f32, 1.0>) -> !quant.uniform<i32:f32, 1.0>
  %1 = ml.mul %b, %b : (!quant.uniform<i8:f32, 1.0e+30>, !quant.uniform<i8:f32, 1.0e+30>) -> !quant.uniform<i8:f32, 1.0e+30>
  func.return
}

// CHECK-LABEL: @different_types
func.func @different_types(%a: !quant.uniform<i8:f32, 0.5>, %b: !quant.uniform<u8:f32, 0.25:3>) -> !quant.uniform<i8:f32, 0.5> {
  // CHECK-NEXT:  %a_f32 = quant.dcast %a
  // CHECK-NEXT:  %b_f32 = quant.dcast %b
  // CHECK-NEXT:  %sum_f32 = arith.addf %a_f32, %b_f32 : f32
  // CHECK-NEXT:  %sum = quant.qcast %sum_f32
  %sum = ml.add %a, %b : (!quant.uniform<i8:f32, 0.5>, !quant.uniform<u8:f32, 0.25:3>) -> !quant.uniform<i8:f32, 0.5>
  func.return %sum : !quant.uniform<i8:f32, 0.5>
}

// CHECK-LABEL: @mixed
func.func @mixed(%a: tensor<?x!quant.uniform<i8:f16, 0.5>>, %b: tensor<?xf16>) -> tensor<?xf16> {
  // CHECK-NEXT:  %a_f16 = quant.dcast %a : tensor<?x!quant.uniform<i8:f16, 5.000000e-01>> to tensor<?xf16>
  // CHECK-NEXT:  %difference = arith.subf %a_f16, %b : tensor<?xf16>
  // CHECK-NEXT:  func.return %difference
  %difference = ml.sub %a, %b : (tensor<?x!quant.uniform<i8:f16, 0.5>>, tensor<?xf16>) -> tensor<?xf16>
  func.return %difference : tensor<?xf16>
}

// CHECK-LABEL: @floats
func.func @floats(%a: tensor<2xf32>, %b: f64) -> tensor<2xf32> {
  // CHECK-NEXT:  %quotient = arith.divf %a, %a : tensor<2xf32>
  // CHECK-NEXT:  %remainder = arith.remf %b, %b : f64
  %quotient = ml.div %a, %a : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %remainder = ml.mod %b, %b : (f64, f64) -> f64
  func.return %quotient : tensor<2xf32>
}

// A zero point beyond the storage type is not for integers of a known width, and storage
// that is spelled with its signedness has no storage cast.

// CHECK-LABEL: @other_parameters
func.func @other_parameters(%a: !quant.uniform<i8:f32, 0.5:1000>, %b: !quant.uniform<si8:f32, 0.5>) {
  // CHECK:       arith.addf
  // CHECK:       arith.addf
  %0 = ml.add %a, %a : (!quant.uniform<i8:f32, 0.5:1000>, !quant.uniform<i8:f32, 0.5:1000>) -> !quant.uniform<i8:f32, 0.5:1000>
  %1 = ml.add %b, %b : (!quant.uniform<si8:f32, 0.5>, !quant.uniform<si8:f32, 0.5>) -> !quant.uniform<si8:f32, 0.5>
  func.return
}
