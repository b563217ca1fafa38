"""Files of other tools, as modules and back."""
