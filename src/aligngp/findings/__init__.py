"""What figures and the report say about a fitted model, as numbers: no drawing here."""
