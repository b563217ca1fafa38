"""TensorFlow Lite's dialect `tfl`, which is in `frontends.tflite.dialect`."""

from xdsl_quant.frontends.tflite.dialect import *
