"""The same text gives the same text in every process, whatever order its sets have."""

import os
import subprocess
import sys

TEXT = """
func.func @f(%x: tensor<1x2x2x1xf32>, %w: tensor<1x1x1x1xf32>) {
  %a = stablehlo.convolution(%x, %w) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
    window = {}
    {feature_group_count = 1 : i64, batch_group_count = 1 : i64, precision_config = []}
    : (tensor<1x2x2x1xf32>, tensor<1x1x1x1xf32>) -> tensor<1x2x2x1xf32>
  %b = "stablehlo.custom_call"(%x) {call_target_name = "g", has_side_effect = false,
    backend_config = "", api_version = 1 : i32, other = 1 : i32}
    : (tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  %c = stablehlo.custom_call @g(%x) {has_side_effect = false, api_version = 1 : i32,
    backend_config = ""} : (tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  %d = tosa.max_pool2d %x {kernel = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>,
    stride = array<i64: 1, 1>} : (tensor<1x2x2x1xf32>) -> tensor<1x2x2x1xf32>
  %e = tfl.add %x, %x {fused_activation_function = "NONE", pot_scale_int16 = true}
    : tensor<1x2x2x1xf32>
  return
}
"""
COMMAND = (
    "import sys\n"
    "from xdsl.printer import Printer\n"
    "from xdsl_quant.runtime.loading import parse_module\n"
    "Printer(print_generic_format=True).print_op(parse_module(sys.argv[1]))\n"
)


def test_the_order_of_properties_does_not_depend_on_the_process():
    printed = {
        subprocess.run(
            [sys.executable, "-c", COMMAND, TEXT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3", "4")
    }
    assert len(printed) == 1
