-- The roles stay: other databases of the server may use them.
DO $$
DECLARE p record;
BEGIN
  FOR p IN SELECT polname, polrelid::regclass AS t FROM pg_policy WHERE polname IN ('countersign_tenant', 'countersign_system', 'countersign_migration')
           AND polrelid IN (SELECT oid FROM pg_class WHERE relnamespace = current_schema()::regnamespace)
  LOOP
    EXECUTE format('DROP POLICY %I ON %s', p.polname, p.t);
  END LOOP;
  FOR p IN SELECT oid::regclass AS t FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relrowsecurity LOOP
    EXECUTE format('ALTER TABLE %s NO FORCE ROW LEVEL SECURITY, DISABLE ROW LEVEL SECURITY', p.t);
  END LOOP;
END $$;
