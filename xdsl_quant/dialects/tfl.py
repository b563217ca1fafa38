"""TensorFlow Lite's dialect `tfl`, defined in `frontends.tflite.dialect`."""

from xdsl_quant.frontends.tflite.dialect import *
