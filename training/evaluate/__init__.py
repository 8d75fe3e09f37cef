"""How good a model or head is: `fields` of answers that are right, `acceptance` of drafts."""
