"""
What makes compiled code fast and changes no number.
"""
