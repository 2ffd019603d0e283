"""What to do about a text that is no TOML, for those who meet TOML for the first time."""

_HINTS = {
    "Unescaped '\\'": "Between double quotes a backslash is written twice; or write / in paths, or single quotes.",
    "Illegal character '\\n'": "A text in quotes ends on the line on which it begins.",
    "Unterminated string": "A text in quotes ends on the line on which it begins.",
    'Expected "\'"': "A text in quotes ends on the line on which it begins.",
    "Invalid value": 'Text stands in quotes ("fine.csv"), lists in [ ], tables in { }; numbers have decimal points.',
    "Expected '='": "Write key = value; a key with blanks or other signs stands in quotes.",
    "Expected newline": "One key = value a line; numbers have decimal points, and no zeros in front.",
    "Cannot overwrite a value": "A key stands there twice.",
    "Cannot declare": "A table stands there twice. Write all of it in one place.",
    "Unclosed array": "A list ends with ].",
    "Unclosed inline table": "A table in { } stands on one line.",
    "Invalid initial character for a key": "A key with blanks or other signs stands in quotes, no comma comes last.",
}


def hint(told: str) -> str:
    """Return a sentence of help for what tomllib says, empty where there is none."""
    return next((f" {advice}" for words, advice in _HINTS.items() if told.startswith(words)), "")
