// The one place that reads errors.

import { Code, ConnectError } from "@connectrpc/connect";

import { SessionEnded } from "../auth/session";
import { BadRequestSchema, ErrorInfoSchema } from "../gen/google/rpc/error_details_pb";

export interface Problem {
  reason: string; // stable; empty when it is none of the API's
  message: string;
  nextStep: string;
  fields: { path: string; message: string }[];
  facts: Record<string, string>;
  notFound: boolean;
  forbidden: boolean;
  retryable: boolean;
}

export function problemOf(error: unknown): Problem {
  const none = { reason: "", nextStep: "", fields: [], facts: {}, notFound: false, forbidden: false, retryable: false };
  if (!(error instanceof ConnectError)) {
    return { ...none, message: error instanceof Error ? error.message : String(error) };
  }
  if (error.cause instanceof SessionEnded) {
    return { ...none, message: error.cause.message, nextStep: "Sign in again." };
  }
  const info = error.findDetails(ErrorInfoSchema)[0];
  const fields = error.findDetails(BadRequestSchema).flatMap((bad) => bad.fieldViolations);
  if (!info && error.code === Code.Unknown && error.cause instanceof TypeError) {
    return { ...none, message: "Countersign cannot be reached", nextStep: "Check the network. It is tried again by itself.", retryable: true };
  }
  const { next_step: nextStep = "", ...facts } = info?.metadata ?? {};
  return {
    reason: info?.reason ?? "",
    message: error.rawMessage,
    nextStep,
    fields: fields.map((f) => ({ path: f.field, message: f.description })),
    facts,
    notFound: error.code === Code.NotFound,
    forbidden: error.code === Code.PermissionDenied,
    retryable: error.code === Code.Unavailable || error.code === Code.DeadlineExceeded || error.code === Code.ResourceExhausted,
  };
}
