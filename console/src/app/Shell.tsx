import { ActionIcon, Alert, AppShell, Avatar, Burger, Button, Center, Group, Loader, Menu, NavLink, ScrollArea, Text, Tooltip, useMantineColorScheme } from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { IconDeviceDesktop, IconLogout, IconMoon, IconPlayerPause, IconPlayerPlay, IconRefresh, IconSun } from "@tabler/icons-react";
import { useQueryClient } from "@tanstack/react-query";
import { Suspense, useEffect, useRef, useState } from "react";
import { Link, Outlet, useLocation } from "react-router";

import { setPaused, useOldest, usePaused } from "../api/live";
import { useConfig, useSession, useSessionState } from "../auth/context";
import { useMe } from "../auth/me";
import { ago, useNow } from "../parts/Time";
import { Boundary } from "./Boundary";
import Palette, { Keys } from "./Palette";
import { screens } from "./screens";

/** The frame around every screen: navigation, who is signed in, how old what one sees is. */
export function Shell() {
  const [open, { toggle, close }] = useDisclosure();
  const { pathname } = useLocation();
  const main = useRef<HTMLElement>(null);
  useEffect(close, [pathname, close]);
  const [dialog, setDialog] = useState<"go" | "keys">();
  useHotkeys([["mod+K", () => setDialog("go")]], []); // also while one types
  useHotkeys([["shift+?", () => setDialog("keys")], ["?", () => setDialog("keys")], ["/", () => document.querySelector<HTMLInputElement>("input[data-search]")?.focus()]]);
  return (
    <AppShell
      header={{ height: 52 }}
      navbar={{ width: 200, breakpoint: "md", collapsed: { mobile: !open } }}
      padding={{ base: "sm", sm: "md" }}
    >
      {dialog === "go" && <Palette onClose={() => setDialog(undefined)} />}
      {dialog === "keys" && <Keys onClose={() => setDialog(undefined)} />}
      <button type="button" className="skip" onClick={() => main.current?.focus()}>To the content</button>
      <AppShell.Header>
        <Group h="100%" px={{ base: "xs", sm: "md" }} justify="space-between" wrap="nowrap" gap="xs">
          <Group gap="xs" wrap="nowrap">
            <Burger opened={open} onClick={toggle} hiddenFrom="md" size="sm" aria-label={open ? "Close the navigation" : "Open the navigation"} />
            <Link to="/" className="brand" aria-label="Countersign">
              <img src="./icon.svg" alt="" width={24} height={24} />
              <Text component="span" fw={700} visibleFrom="xs">Countersign</Text>
            </Link>
          </Group>
          <Group gap="xs" wrap="nowrap">
            <Freshness />
            <Scheme />
            <Person />
          </Group>
        </Group>
      </AppShell.Header>
      <AppShell.Navbar p="xs">
        <ScrollArea component="nav" aria-label="Screens" style={{ flex: 1 }}>
          {screens.map(({ path, nav }) => nav && (
            <NavLink
              key={path} component={Link} to={`/${path}`} label={nav.label} leftSection={<nav.icon size={18} stroke={1.8} />}
              active={pathname === `/${path}` || pathname.startsWith(`/${path}/`)}
              aria-current={pathname === `/${path}` ? "page" : undefined}
            />
          ))}
        </ScrollArea>
        <Version />
      </AppShell.Navbar>
      <AppShell.Main ref={main} tabIndex={-1} id="main">
        <Ended />
        <Boundary key={pathname}>
          <Suspense fallback={<Center p="xl"><Loader aria-label="Loading the screen" /></Center>}>
            <Outlet />
          </Suspense>
        </Boundary>
      </AppShell.Main>
    </AppShell>
  );
}

function Version() {
  const { version } = useConfig();
  return <Text size="xs" c="dimmed" p="xs">{version}</Text>;
}

/** How old what is on the screen is, and a way to hold it. */
function Freshness() {
  const paused = usePaused();
  const oldest = useOldest();
  const now = useNow(1000);
  const queries = useQueryClient();
  if (!oldest) return null;
  const seconds = Math.max(0, Math.round((now - oldest) / 1000));
  return (
    <Group gap={4} wrap="nowrap">
      <Text size="sm" c="dimmed" visibleFrom="sm" data-freshness>
        {paused ? "Paused" : "Live"} · updated {seconds < 2 ? "now" : ago(oldest, now)}
      </Text>
      <Tooltip label={paused ? "Go on reading by itself" : "Read nothing by itself"}>
        <ActionIcon variant="subtle" color="gray" aria-label={paused ? "Resume" : "Pause"} aria-pressed={paused} onClick={() => setPaused(!paused)}>
          {paused ? <IconPlayerPlay size={18} /> : <IconPlayerPause size={18} />}
        </ActionIcon>
      </Tooltip>
      <Tooltip label="Read everything again">
        <ActionIcon variant="subtle" color="gray" aria-label="Refresh" onClick={() => void queries.invalidateQueries()}>
          <IconRefresh size={18} />
        </ActionIcon>
      </Tooltip>
    </Group>
  );
}

const schemes = [
  { value: "light", label: "Light", icon: IconSun },
  { value: "dark", label: "Dark", icon: IconMoon },
  { value: "auto", label: "As the system", icon: IconDeviceDesktop },
] as const;

function Scheme() {
  const { colorScheme, setColorScheme } = useMantineColorScheme();
  const Now = schemes.find((s) => s.value === colorScheme)?.icon ?? IconDeviceDesktop;
  return (
    <Menu position="bottom-end">
      <Menu.Target>
        <ActionIcon variant="subtle" color="gray" aria-label="Colours"><Now size={18} /></ActionIcon>
      </Menu.Target>
      <Menu.Dropdown>
        {schemes.map(({ value, label, icon: Icon }) => (
          <Menu.Item key={value} leftSection={<Icon size={16} />} onClick={() => setColorScheme(value)} fw={value === colorScheme ? 700 : undefined}>
            {label}
          </Menu.Item>
        ))}
      </Menu.Dropdown>
    </Menu>
  );
}

function Person() {
  const session = useSession();
  const { data: me } = useMe();
  if (!me) return null;
  return (
    <Menu position="bottom-end" width={260}>
      <Menu.Target>
        <Button variant="subtle" color="gray" px="xs" aria-label={`${me.subject} · ${me.tenant}`} leftSection={<Avatar size={24} radius="xl" aria-hidden />}>
          <Text component="span" size="sm" visibleFrom="sm" maw={200} truncate>{me.subject} · {me.tenant}</Text>
        </Button>
      </Menu.Target>
      <Menu.Dropdown>
        <Menu.Label>
          <Text size="sm" className="wrap">{me.subject}</Text>
          <Text size="sm">Tenant {me.tenant}</Text>
          <Text size="sm" className="wrap">{me.roles.length ? me.roles.join(", ") : "No roles"}</Text>
        </Menu.Label>
        <Menu.Item leftSection={<IconLogout size={16} />} onClick={() => session.signOut()}>Sign out</Menu.Item>
      </Menu.Dropdown>
    </Menu>
  );
}

function Ended() {
  const session = useSession();
  const state = useSessionState();
  if (state.kind !== "ended") return null;
  return (
    <Alert color="red" variant="outline" title="Your sign-in has ended" mb="md">
      What you see is as it was. <Button size="compact-sm" ml="xs" onClick={() => void session.signIn()}>Sign in again</Button>
    </Alert>
  );
}
