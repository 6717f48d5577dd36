import { IconCircleCheck, IconCircleDashed, IconCircleX, IconProgressCheck } from "@tabler/icons-react";

import { ProviderRefreshStatus as Status } from "../../gen/countersign/registry/v1/tool_provider_service_pb";
import { Chip } from "../../parts/Chip";
import { refreshWord } from "./words";

const signs = {
  [Status.UNSPECIFIED]: ["mute", IconCircleDashed], [Status.NEVER]: ["mute", IconCircleDashed], [Status.RUNNING]: ["calm", IconProgressCheck],
  [Status.SUCCEEDED]: ["good", IconCircleCheck], [Status.FAILED]: ["bad", IconCircleX],
} as const;

/** What became of the last refresh of a provider. */
export function RefreshChip({ status }: { status: Status | undefined }) {
  const [tone, icon] = signs[status ?? Status.NEVER];
  return <Chip tone={tone} icon={icon}>{refreshWord[status ?? Status.NEVER]}</Chip>;
}
