"""Lift of airfoils: 52 variables made six inputs, NeuralFoil beside a panel method that knows three of them."""
