"""Objectives: (model, data) to named terms."""
