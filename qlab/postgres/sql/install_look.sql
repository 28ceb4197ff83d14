-- install_look: are these tables and indexes there, where CREATE would make them?
-- params: names text[]
-- result: one row (there bool)
-- keeps:  reads only, so that a user without the right to create anything may ask
SELECT coalesce(bool_and(to_regclass(quote_ident(current_schema()) || '.' || wanted.name) IS NOT NULL), false) AS there
FROM unnest(%(names)s::text[]) AS wanted (name);
