import { Group, Text } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import { extent, max, ticks } from "d3-array";
import { line } from "d3-shape";
import { timeTicks } from "d3-time";

interface Series {
  label: string;
  tone: "good" | "warn" | "bad" | "calm" | "mute";
  values: (number | null)[];
  points?: boolean; // dots instead of a line
}

const left = 48, right = 12, top = 8, bottom = 22;

/** Values over time, in seconds since 1970. What it shows stands in a list beside it, for those who do not see it. */
export function Chart({ label, times, series, height = 180 }: { label: string; times: number[]; series: Series[]; height?: number }) {
  const { ref, width } = useElementSize<HTMLDivElement>();
  const [from = 0, to = 0] = extent(times);
  const most = max(series, (s) => max(s.values, (v) => v ?? 0)) || 1;
  const x = (t: number) => left + ((t - from) / (to - from || 1)) * (width - left - right);
  const y = (v: number) => height - bottom - (v / most) * (height - top - bottom);
  const days = to - from > 2 * 86_400;
  const when = (t: Date) => t.toLocaleString(undefined, days ? { month: "short", day: "numeric" } : { hour: "2-digit", minute: "2-digit" });
  return (
    <div ref={ref} className="chart">
      <svg width={width} height={height} role="img" aria-label={label}>
        {ticks(0, most, 4).map((v) => (
          <g key={v}><line x1={left} x2={width - right} y1={y(v)} y2={y(v)} /><text x={left - 6} y={y(v)} dy="0.32em" textAnchor="end">{v.toLocaleString()}</text></g>
        ))}
        {timeTicks(new Date(from * 1000), new Date(to * 1000), Math.max(2, Math.floor(width / 140))).map((t) => (
          <g key={+t}><line x1={x(+t / 1000)} x2={x(+t / 1000)} y1={top} y2={height - bottom} /><text x={x(+t / 1000)} y={height - 6} textAnchor="middle">{when(t)}</text></g>
        ))}
        {series.map((s) => (
          <g key={s.label} style={{ color: `var(--${s.tone})` }}>
            {!s.points && <path d={line<number | null>().defined((v) => v !== null).x((_, i) => x(times[i] ?? 0)).y((v) => y(v ?? 0))(s.values) ?? undefined} />}
            {(s.points || s.values.length < 60) && s.values.map((v, i) => v !== null && <circle key={i} cx={x(times[i] ?? 0)} cy={y(v)} r={3} />)}
          </g>
        ))}
      </svg>
      <Group gap="md" justify="center" aria-hidden>
        {series.map((s) => <Text key={s.label} size="xs"><span style={{ color: `var(--${s.tone})` }}>{s.points ? "●" : "━"}</span> {s.label}</Text>)}
      </Group>
    </div>
  );
}
