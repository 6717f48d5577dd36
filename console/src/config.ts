// What the server of this page says about the installation.

export interface Config {
  issuer: string;
  clientId: string;
  scopes: string[];
  audience?: string;
  temporalUi: string;
  temporalNamespace: string;
  version: string;
  api: string; // path of the API at this origin, such as "" or "/prefix"
}

/** Where the console is mounted, with a slash at the end. */
export const home = new URL(".", document.baseURI);

export async function loadConfig(): Promise<Config> {
  const answer = await fetch(new URL("config.json", home), { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`the console's configuration cannot be read: HTTP ${answer.status}`);
  return (await answer.json()) as Config;
}
