import "uplot/dist/uPlot.min.css";

import { useComputedColorScheme } from "@mantine/core";
import { useElementSize, useMergedRef } from "@mantine/hooks";
import { useEffect, useRef } from "react";
import uPlot from "uplot";

interface Series {
  label: string;
  tone: "good" | "warn" | "bad" | "calm" | "mute";
  values: (number | null)[];
  points?: boolean; // dots instead of a line
}

/** Values over time. What it shows stands in a list beside it, for those who do not see it. */
export function Chart({ label, times, series, height = 180 }: { label: string; times: number[]; series: Series[]; height?: number }) {
  const own = useRef<HTMLDivElement>(null);
  const { ref, width } = useElementSize<HTMLDivElement>();
  const merged = useMergedRef(own, ref);
  const scheme = useComputedColorScheme();
  useEffect(() => {
    if (!own.current || width === 0) return;
    const style = getComputedStyle(own.current);
    const colour = (name: string) => style.getPropertyValue(`--${name}`).trim() || style.color;
    const axis = { stroke: style.color, grid: { stroke: "rgba(128,128,128,0.25)", width: 1 }, ticks: { stroke: "rgba(128,128,128,0.25)" } };
    const plot = new uPlot({
      width: Math.floor(width), height, axes: [axis, { ...axis, size: 56 }], legend: { live: false }, cursor: { show: false },
      series: [{}, ...series.map((s) => ({
        label: s.label, stroke: colour(s.tone), width: s.points ? 0 : 1.5, spanGaps: false,
        points: { show: s.points || s.values.length < 60, size: 6, fill: colour(s.tone), stroke: colour(s.tone) },
      }))],
    }, [times, ...series.map((s) => s.values)] as uPlot.AlignedData, own.current);
    return () => plot.destroy();
  }, [width, height, scheme, times, series]);
  return <div ref={merged} className="chart" role="img" aria-label={label} style={{ minHeight: height }} />;
}
