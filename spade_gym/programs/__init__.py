"""From a model's reply to a program: extraction, repairs, the contract, commands."""
