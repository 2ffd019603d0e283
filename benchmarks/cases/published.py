"""The paper's own numbers, to stand beside ours: mean and standard deviation over its ten instances.

Table "Comparative results of different GP models on five heterogeneous multi-task learning cases". The paper shows the
two toy cases as box plots only. Its supernova sample and its sarcos split are not ours (see the cases' files).
"""

PUBLISHED = {
    # (case, model): (SMSE mean, sd, SMLL mean, sd)
    ("supernova", "SOGP"): (0.7303, 0.3721, 21.5982, 24.2586),
    ("supernova", "HSVLMC-g0"): (0.5017, 0.4630, 0.1099, 0.8263),
    ("supernova", "HSVLMC-EM"): (0.6134, 0.5034, -0.0583, 0.6871),
    ("supernova", "HSVLMC"): (0.2147, 0.1339, -0.4508, 0.9742),
    ("sarcos_a", "SOGP"): (0.3660, 0.1021, 26.2674, 31.9417),
    ("sarcos_a", "HSVLMC-g0"): (0.1301, 0.0679, -1.0194, 0.2643),
    ("sarcos_a", "HSVLMC-EM"): (0.3710, 0.1085, -0.5825, 0.1908),
    ("sarcos_a", "HSVLMC"): (0.0580, 0.0134, -1.2654, 0.2140),
    ("sarcos_b", "SOGP"): (0.1957, 0.1038, 2.8495, 1.6491),
    ("sarcos_b", "HSVLMC-g0"): (0.1362, 0.0398, -1.0171, 0.2531),
    ("sarcos_b", "HSVLMC-EM"): (0.1682, 0.0589, -0.8745, 0.3449),
    ("sarcos_b", "HSVLMC"): (0.1217, 0.0257, -1.1293, 0.1817),
}
