import { diffWordsWithSpace } from "diff";
import { Fragment } from "react";

import { Escaped } from "../../parts/Escaped";

/** Two texts, what went and what came marked in them; one below the other or side by side. */
export function TextDiff({ before, after, split }: { before: string; after: string; split: boolean }) {
  const parts = diffWordsWithSpace(before, after);
  const old = parts.map((p, i) => !p.added && (p.removed ? <del key={i} className="removed"><Escaped text={p.value} /></del> : <Escaped key={i} text={p.value} />));
  const fresh = parts.map((p, i) => !p.removed && (p.added ? <ins key={i} className="added"><Escaped text={p.value} /></ins> : <Escaped key={i} text={p.value} />));
  if (split) {
    return (
      <div className="split">
        <div aria-label="Before" role="group">{old}</div>
        <div aria-label="After" role="group">{fresh}</div>
      </div>
    );
  }
  return (
    <div style={{ whiteSpace: "pre-wrap" }}>
      {parts.map((p, i) => p.added ? <ins key={i} className="added"><Escaped text={p.value} /></ins> : p.removed ? <del key={i} className="removed"><Escaped text={p.value} /></del> : <Fragment key={i}><Escaped text={p.value} /></Fragment>)}
    </div>
  );
}
