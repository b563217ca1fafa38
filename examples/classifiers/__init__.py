"""
Three small classifiers, trained on data sets from scikit-learn, as TensorFlow Lite,
StableHLO and ONNX models.
"""
