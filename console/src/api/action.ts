import type { DescMessage, DescMethodUnary, MessageShape } from "@bufbuild/protobuf";
import { useMutation } from "@connectrpc/connect-query";

import { notify } from "../parts/Notices";

/**
 * A change. On success it says so, and everything on the screen is read again; a failure is the caller's to show, by
 * <Problem error={action.error}>.
 */
export function useAction<I extends DescMessage, O extends DescMessage>(
  method: DescMethodUnary<I, O>,
  options: { done?: string | ((answer: MessageShape<O>) => string); then?: (answer: MessageShape<O>) => void } = {},
) {
  return useMutation(method, {
    onSuccess: (answer) => {
      const { done } = options;
      if (done) notify(typeof done === "string" ? done : done(answer));
      options.then?.(answer);
    },
  });
}
