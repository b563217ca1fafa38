"""
Three small classifiers, trained on data sets that scikit-learn ships, as models of
TensorFlow Lite, of StableHLO and of ONNX.
"""
