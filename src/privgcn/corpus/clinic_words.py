"""What the synthetic letters of ``clinic`` are put together from.

All of it was written for this package. No sentence comes from a real letter, and no real
person is described.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Phrases:
    """What one department tends to write about."""

    complaints: tuple[str, ...]
    findings: tuple[str, ...]
    examinations: tuple[str, ...]
    treatments: tuple[str, ...]
    diagnoses: tuple[str, ...]


DEPARTMENTS: dict[str, Phrases] = {
    "cardiology": Phrases(
        complaints=(
            "pressure behind the breastbone when climbing stairs",
            "a racing heart at night",
            "palpitations after coffee",
            "chest tightness on exertion",
            "swollen ankles in the evening",
            "a skipped heartbeat now and then",
            "chest pain that spreads to the left arm",
        ),
        findings=(
            "a heart rhythm that was irregular",
            "a murmur over the aortic valve",
            "a reduced ejection fraction of the heart",
            "mild narrowing of a coronary artery",
            "raised blood pressure and a fast pulse",
            "no sign of a fresh infarction",
        ),
        examinations=(
            "the electrocardiogram",
            "echocardiography of the heart",
            "the stress test on the bicycle",
            "coronary angiography",
            "the heart rhythm recording over a day",
        ),
        treatments=(
            "a beta blocker in the morning",
            "a low dose of a statin",
            "an anticoagulant because of the rhythm",
            "a diuretic and daily weighing",
            "an appointment for the pacemaker check",
        ),
        diagnoses=(
            "atrial fibrillation",
            "coronary heart disease",
            "heart failure",
            "hypertension",
        ),
    ),
    "dermatology": Phrases(
        complaints=(
            "an itching rash on both forearms",
            "a mole that has changed its colour",
            "dry skin that cracks in winter",
            "red scaly patches on the elbows",
            "blisters after a day in the sun",
            "itching skin that disturbs the night",
            "spots on the face that leave scars",
        ),
        findings=(
            "sharply bordered scaly plaques on the skin",
            "a dark mole with an uneven border",
            "scratch marks and thickened skin",
            "a rash that spares the face",
            "small inflamed follicles of the skin",
            "no suspicious mole on the back",
        ),
        examinations=(
            "dermatoscopy of the mole",
            "the patch test for contact allergy",
            "a skin biopsy from the forearm",
            "inspection of the whole skin",
            "the swab from the rash",
        ),
        treatments=(
            "a steroid cream on the rash twice a day",
            "an ointment for the skin without perfume",
            "removal of the mole under local anaesthesia",
            "light therapy for the skin",
            "sun protection and a yearly skin check",
        ),
        diagnoses=("eczema", "psoriasis of the skin", "contact dermatitis", "acne"),
    ),
    "gastroenterology": Phrases(
        complaints=(
            "burning in the stomach after meals",
            "loose stools several times a day",
            "cramps in the lower abdomen",
            "bloating after bread and milk",
            "heartburn when lying down",
            "blood in the stool on two occasions",
            "a full stomach after a few bites",
        ),
        findings=(
            "inflamed mucosa of the lower colon",
            "a small ulcer of the stomach",
            "tenderness of the abdomen on the right",
            "a polyp of the colon that was removed",
            "stones in the gallbladder",
            "a healthy mucosa of stomach and bowel",
        ),
        examinations=(
            "gastroscopy of the stomach",
            "colonoscopy",
            "ultrasound of the abdomen",
            "the stool test",
            "the breath test for lactose",
        ),
        treatments=(
            "an acid blocker before breakfast for the stomach",
            "a diet low in fibre until the bowel has calmed",
            "enzymes with each meal",
            "another colonoscopy in three years",
            "a rectal foam for the inflamed bowel",
        ),
        diagnoses=("gastritis", "ulcerative colitis", "irritable bowel", "reflux disease"),
    ),
    "neurology": Phrases(
        complaints=(
            "headaches on one side with flickering lights",
            "tingling in both feet",
            "a tremor of the right hand",
            "a seizure without warning",
            "dizziness when turning the head",
            "numbness of the left half of the face",
            "headaches that no tablet relieves",
        ),
        findings=(
            "weak reflexes of both ankles",
            "a resting tremor and a stiff gait",
            "slowed nerve conduction in the legs",
            "small lesions in the white matter of the brain",
            "normal cranial nerve function",
            "a reduced sense of vibration in the feet",
        ),
        examinations=(
            "magnetic resonance imaging of the brain",
            "the electroencephalogram",
            "measurement of nerve conduction",
            "the lumbar puncture",
            "the reflex and gait test",
        ),
        treatments=(
            "a triptan at the onset of the headache",
            "a drug against seizures in slowly rising doses",
            "levodopa for the tremor",
            "a headache diary",
            "vitamins for the damaged nerve",
        ),
        diagnoses=("migraine", "epilepsy", "polyneuropathy", "parkinsonism with tremor"),
    ),
    "orthopaedics": Phrases(
        complaints=(
            "a knee that hurts on the way downstairs",
            "stiffness of the hip in the morning",
            "back pain that shoots into the leg",
            "a shoulder that can not be lifted",
            "a twisted ankle joint from the weekend",
            "pain in the knee after long walks",
            "a swollen finger joint",
        ),
        findings=(
            "wear of the cartilage in the knee joint",
            "a torn meniscus",
            "a fracture that has healed in good position",
            "limited rotation of the hip joint",
            "a slipped disc of the lower spine",
            "a stable knee without effusion",
        ),
        examinations=(
            "the radiograph of the knee",
            "testing of the ligaments of the joint",
            "the scan of the spine",
            "arthroscopy of the joint",
            "measurement of bone density",
        ),
        treatments=(
            "physiotherapy for the joint twice a week",
            "a brace for the knee",
            "an injection into the joint",
            "replacement of the hip in spring",
            "exercises for the muscles of the spine",
        ),
        diagnoses=(
            "arthrosis of the knee",
            "a herniated disc",
            "frozen shoulder",
            "osteoporosis of the bone",
        ),
    ),
    "pneumology": Phrases(
        complaints=(
            "a cough that brings up phlegm",
            "wheezing in cold air",
            "breathlessness on level ground",
            "a dry cough since the spring",
            "snoring with pauses in breathing",
            "waking at night short of breath",
            "a cough with every infection",
        ),
        findings=(
            "a prolonged expiration with wheezing over both lungs",
            "reduced lung volume",
            "an obstruction of the airways that responds to spray",
            "crackles over the lower lung",
            "a shadow in the upper lobe of the lung",
            "free airways and clear lungs",
        ),
        examinations=(
            "spirometry of the lungs",
            "computed tomography of the lung",
            "bronchoscopy of the airways",
            "the sleep study of breathing",
            "the blood gas analysis of oxygen",
        ),
        treatments=(
            "an inhaler for the airways twice a day",
            "a breathing mask at night",
            "oxygen during exertion",
            "help with giving up smoking for the lungs",
            "a spray for the airways when needed",
        ),
        diagnoses=(
            "asthma",
            "chronic bronchitis",
            "sleep apnoea",
            "pneumonia of the lower lung",
        ),
    ),
}

ANYWHERE = Phrases(
    complaints=(
        "tiredness that does not pass",
        "a poor night's sleep",
        "less appetite than usual",
        "general weakness since the last visit",
        "worry about the coming winter",
        "no new complaints",
        "feeling better than before",
    ),
    findings=(
        "nothing that would explain it",
        "no change since the last visit",
        "values within the expected range",
        "a good general condition",
        "a slightly raised inflammation marker",
        "results that we shall send later",
    ),
    examinations=(
        "the blood count",
        "the physical examination",
        "the laboratory panel",
        "the urine sample",
        "the comparison with older reports",
    ),
    treatments=(
        "the present medication without change",
        "more rest and plenty of fluids",
        "a daily walk",
        "a visit to the family doctor next month",
        "waiting and watching",
    ),
    diagnoses=(
        "a condition still to be clarified",
        "an uncomplicated course",
        "a known allergy",
        "a past operation",
    ),
)
