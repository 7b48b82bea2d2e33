"""The sentences that the synthetic letters of ``clinic`` are built on; written for it."""

from __future__ import annotations

OPENINGS = (
    "Thank you for referring this {age}-year-old patient.",
    "We saw this patient, aged {age}, in our outpatient hours.",
    "The {age}-year-old patient came for a planned check.",
    "This letter follows the visit of your patient, aged {age}.",
    "Your patient of {age} years was with us as a day case.",
)
COMPLAINTS = (
    "The main complaint is {complaint}, present for {duration}.",
    "There has been {complaint} for {duration}.",
    "For {duration} the patient has noticed {complaint}.",
    "The patient describes {complaint}, which began {duration} ago.",
)
FINDINGS = (
    "{Examination} showed {finding}.",
    "We found {finding} on {examination}.",
    "On {examination} there was {finding}.",
    "{Examination} was done today and revealed {finding}.",
)
HISTORIES = (
    "The history includes {diagnosis}.",
    "Known from earlier years: {diagnosis}.",
    "The patient has lived with {diagnosis} for {duration}.",
    "A relative was treated for {diagnosis}.",
)
TREATMENTS = (
    "We advise {treatment}.",
    "From now on we suggest {treatment}.",
    "Please continue with {treatment}.",
    "We have arranged {treatment}.",
)
CLOSINGS = (
    "We shall see the patient again in {duration}.",
    "No further visit is planned.",
    "Please send us your own results.",
    "With kind regards from the department.",
    "A copy goes to the patient.",
)
DURATIONS = (
    "three days",
    "a week",
    "two weeks",
    "four weeks",
    "two months",
    "six months",
    "a year",
    "several years",
)
