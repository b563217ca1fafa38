"""
Compiled code beside the interpreter, for each CPU that this machine can be taken for, and
for those that it lacks as far as LLVM's optimizer is concerned.
"""
