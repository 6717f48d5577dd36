import { createTheme, type CSSVariablesResolver } from "@mantine/core";

// Shades are such that every text has a contrast of 4.5 to what is behind it (WCAG 2.1, 1.4.3).
export const theme = createTheme({
  primaryColor: "blue",
  primaryShade: { light: 8, dark: 8 },
  fontFamily: "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif",
  fontFamilyMonospace: "ui-monospace, SFMono-Regular, Menlo, Consolas, 'Liberation Mono', monospace",
  defaultRadius: "sm",
  cursorType: "pointer",
  respectReducedMotion: true,
  components: {
    Alert: { styles: { title: { color: "var(--mantine-color-text)" } } },
    Tooltip: { defaultProps: { events: { hover: true, focus: true, touch: true }, multiline: true, maw: 360 } },
    Button: { defaultProps: { size: "sm" } },
  },
});

export const resolver: CSSVariablesResolver = () => ({
  variables: {},
  light: {
    "--mantine-color-dimmed": "#495057",
    "--mantine-color-placeholder": "#5c636a",
    "--mantine-color-error": "#c92a2a",
    "--good": "#2b8a3e",
    "--warn": "#b35c00",
    "--bad": "#c92a2a",
    "--calm": "#1864ab",
    "--mute": "#5c636a",
  },
  dark: {
    "--mantine-color-dimmed": "#b8b8b8",
    "--mantine-color-placeholder": "#a6a6a6",
    "--mantine-color-error": "#ff8787",
    "--good": "#69db7c",
    "--warn": "#ffc078",
    "--bad": "#ff8787",
    "--calm": "#74c0fc",
    "--mute": "#a6a6a6",
  },
});
