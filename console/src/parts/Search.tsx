import { CloseButton, TextInput } from "@mantine/core";
import { useDebouncedCallback } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { useEffect, useState } from "react";

/** A search that waits until one stops typing. "/" leads to it. */
export function Search({ value, onChange, label, placeholder }: { value: string; onChange: (value: string) => void; label: string; placeholder?: string }) {
  const [typed, setTyped] = useState(value);
  useEffect(() => setTyped(value), [value]);
  const tell = useDebouncedCallback(onChange, 300);
  return (
    <TextInput
      data-search
      aria-label={label} placeholder={placeholder ?? `${label}  ( / )`} value={typed}
      leftSection={<IconSearch size={16} />} w={{ base: "100%", sm: 280 }}
      rightSection={typed ? <CloseButton size="sm" aria-label="Clear the search" onClick={() => { setTyped(""); onChange(""); }} /> : null}
      onChange={(e) => { setTyped(e.currentTarget.value); tell(e.currentTarget.value.trim()); }}
      onKeyDown={(e) => { if (e.key === "Escape") e.currentTarget.blur(); }}
    />
  );
}
