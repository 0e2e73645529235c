-- A listing ends with the message that fills an answer, so each message says how large it is: the bytes of its words and of
-- what it was told with. The length of stored words is known without reading them.
do $$
begin
  execute format(
    $view$
      create or replace view timeline with (security_invoker = true) as
      select
        held.*,
        octet_length(held.body)
          + octet_length(held.told_metadata::text)
          + coalesce(octet_length(held.mentions::text), 0)
          + coalesce(octet_length(held.reactions::text), 0) as size
      from (%s) as held
    $view$,
    rtrim(pg_get_viewdef('timeline'::regclass), ';')
  );
end $$;
