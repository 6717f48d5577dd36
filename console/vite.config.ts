import react from "@vitejs/plugin-react";
import process from "node:process";
import { defineConfig } from "vite";

// The server of the page tells at run time where it is mounted, in <base href>; so every address in it is relative.
const api = process.env["COUNTERSIGN_SERVER"] ?? "http://127.0.0.1:8080";

export default defineConfig({
  base: "./",
  plugins: [react()],
  build: {
    target: "es2022",
    modulePreload: { polyfill: false },
    assetsInlineLimit: 0, // data: addresses would need their own word in the content security policy
    // All of it is to stay below 350 kB compressed (TestSizeOfTheJavaScript): terser makes it smaller than the default does, and few
    // large parts are compressed better than many small ones.
    minify: "terser",
    terserOptions: { ecma: 2020, module: true, compress: { passes: 2, unsafe_arrows: true }, format: { comments: false } },
    rolldownOptions: {
      output: {
        codeSplitting: {
          groups: [
            { name: "shared", test: /node_modules\/(?!diff\/|d3-)/, priority: 2 },
            { name: "common", minShareCount: 2, priority: 1 },
          ],
        },
      },
    },
    reportCompressedSize: false,
    chunkSizeWarningLimit: 1000,
  },
  server: {
    // `npm run dev` takes everything but the page from a running Countersign.
    proxy: Object.fromEntries(
      ["/countersign.registry.v1", "/issuer", "/console/config.json"].map((path) => [path, { target: api }]),
    ),
  },
});
