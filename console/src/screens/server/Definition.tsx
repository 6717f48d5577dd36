import { toJson } from "@bufbuild/protobuf";
import { Group, Text } from "@mantine/core";

import { type McpServer, McpServerSchema } from "../../gen/countersign/registry/v1/types_pb";
import { CopyButton } from "../../parts/Copy";
import { Escaped } from "../../parts/Escaped";
import { yaml } from "./yaml";

/** The server as the API gives it, in YAML. */
export function Definition({ of: s }: { of: McpServer }) {
  const text = yaml(toJson(McpServerSchema, s));
  return (
    <>
      <Group gap="xs" mb="xs"><Text size="sm">As the API gives it.</Text><CopyButton text={text} label="Copy the YAML" /></Group>
      <pre className="code" tabIndex={0}><Escaped text={text} /></pre>
    </>
  );
}
