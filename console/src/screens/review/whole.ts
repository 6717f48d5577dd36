import { create } from "@bufbuild/protobuf";
import { callUnaryMethod, useTransport } from "@connectrpc/connect-query";
import { useQuery } from "@tanstack/react-query";

import { heldKey } from "../../api/live";
import { type GetReviewResponse, ReviewView } from "../../gen/countersign/registry/v1/review_pb";
import { McpServerService } from "../../gen/countersign/registry/v1/mcp_server_service_pb";
import { GetReviewResponseSchema } from "../../gen/countersign/registry/v1/review_pb";

/** All of a review, page by page; nothing is shown of it before the last page is there, since it is signed as one. */
export function useWholeReview(server: string) {
  const transport = useTransport();
  return useQuery({
    queryKey: [heldKey, "review", server],
    staleTime: Infinity, gcTime: 0, // what one looks at stays until one asks for what is there now
    refetchOnWindowFocus: false,
    retry: false,
    queryFn: async (): Promise<GetReviewResponse> => {
      const all = create(GetReviewResponseSchema);
      for (let pageToken = ""; ;) {
        const page = await callUnaryMethod(transport, McpServerService.method.getReview, { serverId: server, view: ReviewView.FULL, showUnchanged: true, pageSize: 1000, pageToken });
        const { tools, resources, templates, prompts } = page;
        Object.assign(all, page, {
          tools: [...all.tools, ...tools], resources: [...all.resources, ...resources], templates: [...all.templates, ...templates], prompts: [...all.prompts, ...prompts],
        });
        pageToken = page.nextPageToken;
        if (!pageToken) return all;
      }
    },
  });
}
