"""A recorded reply of a model, for the demonstration and the examples."""
