"""Programs as Gymnasium environments, single and batched."""
