"""The wrong ways, kept whole and named as the mistakes they are: a lesson shows each failing, then a cure."""
