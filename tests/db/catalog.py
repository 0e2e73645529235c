"""What the catalog says about a schema, as text that two databases can be compared by."""

from psycopg import AsyncConnection

_RELATIONS = "relnamespace = 'roomlore'::regnamespace"

#: By kind of object, a query for names and everything that makes two of them alike. Object ids and the places of
#: columns that were dropped are no part of it.
_QUERIES = {
    "schema": "select nspname, concat_ws(' | ', pg_get_userbyid(nspowner), nspacl::text) from pg_namespace"
    " where nspname = 'roomlore'",
    "relation": f"""
        select relname, concat_ws(
          ' | ', relkind, pg_get_userbyid(relowner), relrowsecurity, relforcerowsecurity, reloptions::text,
          (select string_agg(acl::text, ',' order by acl::text) from unnest(relacl) as acl),
          pg_get_expr(relpartbound, oid), case when relkind = 'p' then pg_get_partkeydef(oid) end
        )
        from pg_class where {_RELATIONS}
    """,
    "columns": f"""
        select attrelid::regclass::text, string_agg(
          concat_ws(
            ' ', attname, format_type(atttypid, atttypmod), attnotnull, attstorage, attidentity, attgenerated,
            attacl::text, pg_get_expr(adbin, adrelid)
          ),
          ', ' order by attnum
        )
        from pg_attribute
        join pg_class on pg_class.oid = attrelid
        left join pg_attrdef on adrelid = attrelid and adnum = attnum
        where {_RELATIONS} and relkind <> 'i' and attnum > 0 and not attisdropped
        group by attrelid
    """,
    "view": "select viewname, definition from pg_views where schemaname = 'roomlore'",
    "constraint": """
        select concat_ws('.', conrelid::regclass, conname), concat_ws(' | ', pg_get_constraintdef(oid), convalidated)
        from pg_constraint where connamespace = 'roomlore'::regnamespace
    """,
    "index": f"""
        select indexrelid::regclass::text, concat_ws(' | ', pg_get_indexdef(indexrelid), indisvalid)
        from pg_index join pg_class on pg_class.oid = indexrelid where {_RELATIONS}
    """,
    "policy": """
        select concat_ws('.', tablename, policyname), concat_ws(' | ', permissive, roles::text, cmd, qual, with_check)
        from pg_policies where schemaname = 'roomlore'
    """,
    "function": """
        select oid::regprocedure::text, concat_ws(' | ', pg_get_functiondef(oid), pg_get_userbyid(proowner), proacl::text)
        from pg_proc where pronamespace = 'roomlore'::regnamespace
    """,
    "type": """
        select typname, concat_ws(' | ', typtype, pg_get_userbyid(typowner), typacl::text)
        from pg_type where typnamespace = 'roomlore'::regnamespace
    """,
    "trigger": f"""
        select concat_ws('.', tgrelid::regclass, tgname), pg_get_triggerdef(pg_trigger.oid)
        from pg_trigger join pg_class on pg_class.oid = tgrelid where {_RELATIONS} and not tgisinternal
    """,
    "sequence": "select sequencename, sequenceowner from pg_sequences where schemaname = 'roomlore'",
    "comment": f"""
        select concat_ws('.', relname, objsubid), description
        from pg_description join pg_class on pg_class.oid = objoid and classoid = 'pg_class'::regclass
        where {_RELATIONS}
    """,
    "default privilege": "select concat_ws('.', pg_get_userbyid(defaclrole), defaclobjtype), defaclacl::text"
    " from pg_default_acl",
    "extension": "select extname, extnamespace::regnamespace::text from pg_extension",
    "publication": "select pubname, puballtables::text from pg_publication",
    "setting": "select setrole::text, setconfig::text from pg_db_role_setting"
    " where setdatabase = (select oid from pg_database where datname = current_database())",
}


async def described(conn: AsyncConnection) -> dict[tuple[str, str], str]:
    """Return every object of the schema, by kind and name, with all that makes it what it is."""
    await conn.execute("set search_path = pg_catalog")
    found = {}
    for kind, query in _QUERIES.items():
        rows = await (await conn.execute(query)).fetchall()
        found |= {(kind, name): text for name, text in rows}
    return found
