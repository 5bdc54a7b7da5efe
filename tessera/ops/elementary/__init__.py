"""Elementary functions of numbers beyond exponentials: inverse trigonometric and hyperbolic ones."""
