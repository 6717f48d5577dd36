import { Component, type ReactNode } from "react";

import { Problem } from "../parts/Problem";

/** Keeps the frame when a screen cannot be shown. */
export class Boundary extends Component<{ children: ReactNode }, { error: unknown }> {
  override state = { error: undefined as unknown };

  static getDerivedStateFromError(error: unknown) {
    return { error };
  }

  override render() {
    if (this.state.error === undefined) return this.props.children;
    return <Problem error={this.state.error} title="This screen cannot be shown" retry={() => location.reload()} />;
  }
}
