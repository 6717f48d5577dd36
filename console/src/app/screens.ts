// The screens. A new one is one entry: a path below the console's, what is loaded for it, and, when the navigation
// is to show it, a label and a sign. Each is loaded when it is first opened.

import { IconBroadcast, IconCertificate, IconChecklist, IconGavel, IconHeartRateMonitor, IconHourglass, IconInbox, IconInfoCircle, IconListSearch, IconPackage, IconPlugConnected, IconServer2, IconTool } from "@tabler/icons-react";
import { type ComponentType, lazy, type LazyExoticComponent } from "react";

export interface Screen {
  path: string;
  page: LazyExoticComponent<ComponentType>;
  nav?: { label: string; icon: ComponentType<{ size?: number; stroke?: number }> };
}

export const screens: Screen[] = [
  { path: "servers", page: lazy(() => import("../screens/servers/Servers")), nav: { label: "Servers", icon: IconServer2 } },
  { path: "inbox", page: lazy(() => import("../screens/inbox/Inbox")), nav: { label: "Inbox", icon: IconInbox } },
  { path: "servers/:name/review", page: lazy(() => import("../screens/review/Review")) },
  { path: "servers/:name", page: lazy(() => import("../screens/server/Server")) },
  { path: "tools", page: lazy(() => import("../screens/tools/Tools")), nav: { label: "Tools", icon: IconTool } },
  { path: "tools/:id", page: lazy(() => import("../screens/tools/Tool")) },
  { path: "descriptors", page: lazy(() => import("../screens/descriptors/Descriptors")), nav: { label: "Descriptors", icon: IconCertificate } },
  { path: "health", page: lazy(() => import("../screens/health/Fleet")), nav: { label: "Health", icon: IconHeartRateMonitor } },
  { path: "register", page: lazy(() => import("../screens/register/Register")) },
  { path: "providers", page: lazy(() => import("../screens/providers/Providers")), nav: { label: "Providers", icon: IconPackage } },
  { path: "providers/:name", page: lazy(() => import("../screens/providers/Provider")) },
  { path: "connections", page: lazy(() => import("../screens/connections/Connections")), nav: { label: "Connections", icon: IconPlugConnected } },
  { path: "connections/:name", page: lazy(() => import("../screens/connections/Connection")) },
  { path: "expiring", page: lazy(() => import("../screens/expiring/Expiring")), nav: { label: "Expiring", icon: IconHourglass } },
  { path: "capabilities", page: lazy(() => import("../screens/capabilities/Capabilities")), nav: { label: "Capabilities", icon: IconChecklist } },
  { path: "policies", page: lazy(() => import("../screens/policies/Policies")), nav: { label: "Policies", icon: IconGavel } },
  { path: "policies/new", page: lazy(() => import("../screens/policies/NewPolicy")) },
  { path: "policies/:name", page: lazy(() => import("../screens/policies/Policy")) },
  { path: "events", page: lazy(() => import("../screens/events/Events")), nav: { label: "Events", icon: IconBroadcast } },
  { path: "events/:id", page: lazy(() => import("../screens/events/Subscription")) },
  { path: "audit", page: lazy(() => import("../screens/audit/Audit")), nav: { label: "Audit", icon: IconListSearch } },
  { path: "about", page: lazy(() => import("../screens/about/About")), nav: { label: "About", icon: IconInfoCircle } },
];
